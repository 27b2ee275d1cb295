"""Compares two runs: what changed, by how much, and whether that is statistically significant."""
