"""Claims over any number of pools, put in one order by a token that goes round the ring of nodes.

The paper's section V (strong/weak allocation with unknown participants): requests wait in weak queues, and whoever has
the token moves all requests of a claim into the strong queues at once, so no two claims stand in different orders
anywhere and nobody waits in a circle. Two ways of moving: `token` carries a list of the claims that have a number and
are not enqueued everywhere yet; `token-tickets` carries one counter per pool, and the tickets go straight to the pools.
"""
