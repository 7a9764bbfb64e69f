"""The HTTP server of a node: routes, live stream, metrics and the dashboard's files, in a process of its own."""
