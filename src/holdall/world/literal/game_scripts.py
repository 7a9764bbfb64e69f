"""Guided scripts of the game of tasks (see `scripts` for how they read)."""

B1 = """
# Both tasks want both pools; c1 has the higher priority. Forms and views are numbered, requests carry no attempt.
c1 claims
c1 -> n0 request
n0 -> c1 view
c2 claims
c2 -> n1 request                # c2 is first at n1 …
c1 -> n1 request
n0 -> c2 view                   # … but sees c1 at n0, and withdraws both requests
n1 -> c1 view version=1
n1 -> c2 view version=1         # what c2 knows of n1 from now on: its request is there, first
c2 -> n1 withdrawal
n1 -> c1 view version=2
n1 -> c1 view
c1 -> n0 winning                # c1 wins both
c2 -> n0 request                # c2's withdrawn request comes late
c1 -> n1 winning
n0 -> c1 view requests=()
n0 -> c2 view requests=()
n0 -> c2 view
n1 -> c1 view
c1 releases
c1 -> n0 releasing              # c1 has left n0, and still uses n1
n0 -> c2 view                   # c2 asks again, finds its old requests first at both pools, and wins
c2 -> n1 winning
= no effect
"""

B2 = """
c1 claims
c1 -> n0 request
n0 -> c1 view
n0 -> c2 view
c2 claims
c2 -> n0 request
n0 -> c1 view
n0 -> c2 view                   # c1, of higher priority, is ahead: c2 withdraws both requests
c2 -> n0 withdrawal
c2 -> n1 withdrawal             # at n1 there is nothing to withdraw yet …
c2 -> n1 request                # … and now there is: a ghost
c1 -> n1 request
n1 -> c1 view requests=()
n1 -> c2 view requests=()
n0 -> c1 view
n0 -> c2 view
n1 -> c1 view version=2
n1 -> c2 view version=2
n1 -> c1 view
n1 -> c2 view                   # c1 waits behind the ghost at n1; c2 waits until c1 has left n0
= deadlock
"""

B8A = """
c1 claims                       # the higher priority
c2 claims
c2 -> n0 request                # c2 is first in the queue
c1 -> n0 request
n0 -> c1 view version=1
n0 -> c2 view version=1         # c2 may win: it sends its order form
n0 -> c1 view
n0 -> c2 view
c1 rings alarm                  # c1 waits behind a request without an order form
c1 -> n0 advance
n0 -> c1 view
n0 -> c2 view                   # c1 is before c2 now: c2 withdraws, and stays in ORDERING
c1 -> n0 order
n0 -> c1 view
n0 -> c2 view
c1 -> n0 winning
n0 -> c1 view
n0 -> c2 view
c1 releases
c1 -> n0 releasing
c2 -> n0 withdrawal
c2 -> n0 order                  # older than the withdrawal: ignored
n0 -> c1 view
n0 -> c2 view version=6
n0 -> c2 view                   # the resource is free, but requests may be sent only in TRYING
= deadlock
"""

G16 = """
# The first round brings views of both pools; then the same again and again. c1 has the higher priority.
c1 claims
c2 claims
c2 -> n0 request
c2 -> n1 request
c1 -> n0 request
c1 -> n1 request
n0 -> c1 view version=1
n1 -> c1 view version=1
n0 -> c2 view version=1
n1 -> c2 view version=1
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view
n1 -> c2 view
c1 rings alarm
c1 -> n0 advance
c2 -> n0 order
c2 -> n1 order
c1 -> n1 advance
n0 -> c1 view version=3
n1 -> c1 view version=3
n1 -> c2 view version=3
n0 -> c2 view version=3
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view
n1 -> c2 view
c1 -> n0 withdrawal
c1 -> n1 withdrawal
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view
n1 -> c2 view
c2 -> n0 withdrawal
c2 -> n1 withdrawal
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view version=6
n1 -> c2 view version=6
again
c2 -> n0 request
c2 -> n1 request
c1 -> n0 request
c1 -> n1 request
n0 -> c1 view version=7
n1 -> c1 view version=7
n0 -> c2 view version=7
n1 -> c2 view version=7
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view
n1 -> c2 view
c1 rings alarm                  # c1 waits behind c2 at both pools
c1 -> n0 advance                # at n0 c1 is put ahead …
c2 -> n0 order
c2 -> n1 order
c1 -> n1 advance                # … at n1 c2's order form was faster
n0 -> c1 view version=9
n1 -> c1 view version=9         # an order form ahead at n1: c1 withdraws
n1 -> c2 view version=9
n0 -> c2 view version=9         # a higher priority ahead at n0: c2 withdraws
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view
n1 -> c2 view
c1 -> n0 withdrawal
c1 -> n1 withdrawal
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view
n1 -> c2 view
c2 -> n0 withdrawal
c2 -> n1 withdrawal
n0 -> c1 view
n1 -> c1 view
n0 -> c2 view version=12
n1 -> c2 view version=12
= livelock
"""
