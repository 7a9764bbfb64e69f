"""Whole nodes in virtual time: what a service runs, with its clients, behind a bus and on clocks that misbehave."""
