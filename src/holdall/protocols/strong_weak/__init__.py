"""Claims of one or two pools among participants that do not know each other: the strong/weak protocol, repaired.

Of a claim's two pools one is strong, the other weak. The strong pool sets its units aside first; then the weak pool,
the only judge, grants the claim or gives it up for now. Source: strong/weak specification, section 3; the paper's terms
(strong queue, weak queue, NewRequest, resAllowed, seekLoop, kill) are named where the code plays their part.
"""
