"""Guided scripts of the slotting protocol (see `scripts` for how they read)."""

LL = """
c1 claims
c1 -> n0 request
c2 claims
again
c1 -> n1 request
c2 -> n0 request
c2 -> n1 request                # both pointers have passed what c1 is promised
n0 -> c1 reply
n1 -> c1 reply
n0 -> c2 reply
n1 -> c2 reply
c1 -> n0 reserve
c1 -> n1 reserve
c2 -> n1 reserve
n0 -> c1 reject
n1 -> c1 reject                 # c1 restarts …
c1 -> n0 request                # … and its new request passes what c2 is promised
c2 -> n0 reserve
n1 -> c2 accept
n0 -> c2 reject                 # c2 restarts
= livelock
"""

LL_UNIQUE = """
c1 claims
c1 -> n1 request
c2 claims
again
c1 -> n0 request
c2 -> n0 request
c2 -> n1 request
n0 -> c1 reply
n1 -> c1 reply
n0 -> c2 reply
n1 -> c2 reply
c1 -> n0 reserve
c1 -> n1 reserve
n0 -> c1 accept
c2 -> n0 reserve
n1 -> c1 reject                 # c1 restarts …
c1 -> n1 request                # … and its new request passes what c2 is promised
c2 -> n1 reserve
n0 -> c2 accept
n1 -> c2 reject                 # c2 restarts
= livelock
"""
