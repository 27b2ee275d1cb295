"""Many sessions against a real broker over a bad network, and what must hold nevertheless (`make soak`)."""
