"""Senders of different size on one slow link, with leases of bandwidth and without."""
