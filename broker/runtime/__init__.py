"""What runs sessions: the clock, timers, and the run queue."""
