"""Workers: cells behind one port, and the links between them (CLUSTER.md)."""
