"""From needs to places on one node or several: which pools can serve a claim, and in which order they are asked."""
