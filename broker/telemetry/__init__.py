"""Per-session metrics: collected from the counters on the loop, written as Parquet off it."""
