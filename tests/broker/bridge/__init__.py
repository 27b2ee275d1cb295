"""The tests of broker/bridge."""
