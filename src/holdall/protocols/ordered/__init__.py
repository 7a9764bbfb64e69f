"""Locking in one global order of pools, first come first served at each pool: the baseline every engineer knows.

No deadlock, since nobody waits for a pool in front of one it holds; but a claim that waits holds all pools before that
one, so claims stand idle in convoys. Kept for comparison. It knows no alternatives: it takes the first vector.
"""
