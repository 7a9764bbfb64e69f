"""Guided scripts of the two-resource algorithm (see `scripts` for how they read)."""

L7 = """
# c1: strong n1, weak n2. c2: strong n2, weak n1. c3: n2 alone. The token stays at n0, which nobody wants.
c1 claims
c1 -> n2 NewRequest
n2 -> n1 NewRequest             # c1 heads n1
c3 claims
c3 -> n2 NewRequest             # c3 heads n2, and enters
c2 claims
c2 -> n1 NewRequest
n1 -> n2 NewRequest             # c2 waits at n2 behind c3
n1 -> n2 NewStrong              # c1's weak request joins the queue of n2, behind c2
n2 -> n1 newStrongACK
n1 -> n2 seekLoop               # c3 heads n2: no loop
n2 -> n1 NoLoop
n1 -> n2 StrongReady
n2 -> c3 resAllowed
c3 releases
c3 -> n2 Done                   # c2 heads n2 now
n2 -> c3 endACK
n2 -> n1 NewStrong              # c2's weak request joins the queue of n1, behind c1: a cycle
n1 -> n2 newStrongACK
n2 -> n1 seekLoop
n1 -> n2 seekLoop               # n2 has found it; the least edge is n1's
n2 -> n1 RemoteKillLoop
n1 -> n2 KillLoop               # c1 goes back to the weak queue of n2 …
n2 -> n1 KillACK1               # … and to the tail of n1: a correct kill
n1 -> n2 KillACK2
= deadlock
# c2 heads both queues, but n2's search ended in a kill, not in NoLoop: StrongReady is never sent.
"""

L12 = """
# c1: strong n0, weak n1. c2: strong n1, weak n0. The root n0 holds the token.
c1 claims
c1 -> n1 NewRequest
n1 -> n0 NewRequest
c2 claims
c2 -> n0 NewRequest
n0 -> n1 NewRequest
n0 -> n1 NewStrong              # c1 waits at n1 behind c2; c2 has not reached n0's queue
n1 -> n0 newStrongACK
n0 -> n1 seekLoop               # n1 passes it on: its head is strong, although its weak request has not moved
n1 -> n0 seekLoop               # n0 believes in a cycle, sends a kill to n1, and seeks again
n0 -> n1 RemoteKillLoop
n0 -> n1 seekLoop
n1 -> n0 KillLoop
n1 -> n0 seekLoop               # the same cycle once more: a second kill
n0 -> n1 KillACK1               # c2 goes to the tail of n1, c1 heads it
n0 -> n1 RemoteKillLoop
n0 -> n1 seekLoop
n1 -> n0 NoLoop
n0 -> n1 StrongReady
n1 -> c1 resAllowed             # c1 is inside
n1 -> n0 KillLoop
n1 -> n0 NewStrong
n0 -> n1 newStrongACK
n1 -> n0 seekLoop
n0 -> n1 KillACK1               # the second kill's answer: c1, which is inside, goes to the tail of n1
n0 -> n1 NoLoop
n1 -> n0 StrongReady
n0 -> c2 resAllowed             # so c2 is inside, too
= exclusion
"""
