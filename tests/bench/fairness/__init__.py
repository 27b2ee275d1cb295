"""The fairness report's speed beside DuckDB's: what `tests/bench/fairness_report.py` is made of."""
