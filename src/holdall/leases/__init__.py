"""Leases: what a granted claim holds, how long, and who must stop first."""
