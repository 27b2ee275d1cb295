"""A broker with several workers, some of which are killed."""
