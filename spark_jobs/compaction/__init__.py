"""From raw metrics files to compacted hours: one row per session and hour, and what plots need by slot."""
