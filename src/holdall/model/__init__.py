"""Values that every part speaks about: names, needs, units, durations, frames, errors. Imports nothing of ours."""
