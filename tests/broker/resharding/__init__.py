"""The tests of broker/resharding."""
