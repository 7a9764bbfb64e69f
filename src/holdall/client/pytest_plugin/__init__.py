"""The pytest plugin: a test that is marked with what it needs runs while it holds all of that."""
