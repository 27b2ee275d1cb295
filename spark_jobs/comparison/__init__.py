"""Two runs side by side: what changed, by how much, and whether that is larger than the noise."""
