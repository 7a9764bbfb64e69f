"""The published algorithms exactly as printed, for the lab only: each is wrong on purpose.

Nothing here may be used by a node. The machines exist so that the explorer can show what is wrong with the printed
rules; each repair on the way to a right protocol is a flag of its own, and none is on by default.
"""
