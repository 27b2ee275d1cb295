"""Shows packets of chosen clients live, and what the broker decides about them. Without a trace nothing of it runs."""
