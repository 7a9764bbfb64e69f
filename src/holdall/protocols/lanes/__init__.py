"""Fast lanes: one numbered lane through all pools of a claim; every pool is asked at once, in one round trip.

Each pool keeps a line in order of (index, claim). A claim asks all its pools; a pool that can serve it without delaying
anybody it knows sets the units aside in its answer, and the claim is in as soon as all have. Otherwise the largest
proposed index becomes the claim's lane in every pool, and the lanes are served in their order. Nothing is ever
rejected, and pools never speak to each other. It knows no alternatives: it takes the first vector.
"""
