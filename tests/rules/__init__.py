"""Generated rule sets in a real broker, against their meaning in ten lines."""
