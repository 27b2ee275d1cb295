"""Tests of the metrics export."""
