"""Who may have how much of what, and when: rules from an operator's file, and what they make of a request."""
