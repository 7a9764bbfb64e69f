"""One node: the process that serves this host's pools. Reads clocks, files and sockets so that the machines need not."""
