"""`holdall lab scale`: how messages, waits and memory grow with the number of nodes, up to thousands of them."""
