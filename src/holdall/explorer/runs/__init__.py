"""What `lab explore --world all` and `--world long` explore, protocol by protocol, with the exact numbers of states.

A number that changes without a reason that can be told is a finding: more states mean new behaviour, fewer mean that
something is not reached any more.
"""
