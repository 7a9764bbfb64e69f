"""A node's part in a location: settings of what it offers, who leads, policies, and the machines' driver."""
