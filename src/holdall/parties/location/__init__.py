"""A node's machines of a location: its host's manager, a candidate for the location's, and a negotiator for its clients."""
