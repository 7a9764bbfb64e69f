"""Which machines make up a pool's side and an agent, and how a node's parts talk to each other."""
