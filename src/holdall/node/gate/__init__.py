"""Bytes on real sockets, held to leases: one gate for a host's link, and the ports through which holders send."""
