"""The published algorithms as printed, as closed systems, and the worlds in which they fail. Lab only."""
