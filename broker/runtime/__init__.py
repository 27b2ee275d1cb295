"""What runs sessions: the clock, timers, and the run queue of those that have something to do."""
