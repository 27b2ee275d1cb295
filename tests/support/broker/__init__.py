"""Helpers of the broker's tests."""
