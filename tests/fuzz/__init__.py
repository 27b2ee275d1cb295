"""Input that no honest client sends."""
