"""Per-session metrics, collected on the event loop and written as Parquet in a thread, and the topics under $SYS."""
