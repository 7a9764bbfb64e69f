"""Commands that one node starts for another: who may, which there are, and what ends them."""
