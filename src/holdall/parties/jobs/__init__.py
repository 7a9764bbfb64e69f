"""The part of a node that keeps its jobs: what they are, their logs, who runs and who follows them."""
