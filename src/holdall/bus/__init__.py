"""How frames get from node to node: in one process, or over NATS. The only importer of nats."""
