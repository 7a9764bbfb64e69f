"""What a host can do to hold a command to its lease: a ladder of means, probed, and told as it is."""
