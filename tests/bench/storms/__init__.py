"""Those who attack a broker, or use all that they may: the storms of `tests/bench/storm.py`."""
