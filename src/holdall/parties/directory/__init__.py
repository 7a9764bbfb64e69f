"""Who else is in the system, under which names, with which pools: told by gossip, for reading and planning only."""
