"""Leases on negotiated terms: hosts decide, a location negotiates for them, agents ask, accept and renew."""
