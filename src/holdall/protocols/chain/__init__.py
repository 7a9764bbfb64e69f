"""The chain over nodes: a claim visits each node once, oldest first, with bounded passing. The default protocol."""
