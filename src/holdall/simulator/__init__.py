"""Seeded runs of the shipped machines in virtual time, with delays, loss and crashes, judged by invariants."""
