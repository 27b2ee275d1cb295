"""The journal: what survives the process (FC-27)."""
