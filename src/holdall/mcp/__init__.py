"""`holdall mcp`: units for software agents that speak the Model Context Protocol."""
