"""Helpers for the tests of the batch jobs."""
