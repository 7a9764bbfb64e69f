"""Who held how much of what, and for how long: append-only, in the same transactions as the leases themselves."""
