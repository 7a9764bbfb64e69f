"""The shipped machines with one rule taken away each, and where the search or a seeded run must see it."""
