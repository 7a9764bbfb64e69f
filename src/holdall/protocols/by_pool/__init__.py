"""What all protocols share that ask each pool apart: who is next is theirs, everything else is here.

A claim has a *place* for each pool that it wants, in the order of (node, pool). A place that has its units is a lease
of its own in the book. A protocol adds messages, a line per pool, and the rule when its claimants may go in.
"""
