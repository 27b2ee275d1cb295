"""The store: Delta tables of compacted hours, committed together, and what has been taken in."""
