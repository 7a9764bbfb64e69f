"""The command line: one module per kind of command, the entry in `entry`."""
