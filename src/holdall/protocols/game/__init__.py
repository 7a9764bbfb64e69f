"""The game of tasks: claims compete with forms at each pool, withdraw for those of higher priority, and decide themselves.

`game` is the paper's restricted variant, `game-complete` the complete one with order marks and alarms; both with leases.
A claim is the paper's task, its node's claimant the agent that plays for it, a pool's line its forms.
"""
