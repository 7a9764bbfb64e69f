"""How programs hold leases: the session with the node, its asyncio face and its blocking face."""
