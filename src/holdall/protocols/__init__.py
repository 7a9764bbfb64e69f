"""Who gets the units, and in which order: one folder per protocol, all behind the same messages and hooks."""
