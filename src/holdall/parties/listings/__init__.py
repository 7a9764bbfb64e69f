"""Answers to questions of people: of this node, and of all nodes together; what could not be asked is named."""
