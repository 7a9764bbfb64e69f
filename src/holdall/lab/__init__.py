"""The protocols under the glass: what people ask of explorer and simulator, and how the answers read."""
