"""The two sides of a node whose protocol asks each pool apart: with the lease book, and with the renewal of claims."""
