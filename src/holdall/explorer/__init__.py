"""Exhaustive search over the shipped machines: every order of events, shortest counter-examples."""
