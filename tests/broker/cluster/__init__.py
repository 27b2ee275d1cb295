"""The tests of broker/cluster."""
