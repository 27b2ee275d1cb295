"""Measures the fairness report's speed beside DuckDB's; the parts of `tests/bench/fairness_report.py`."""
