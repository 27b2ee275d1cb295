"""Batch jobs over the metrics that a Sluice broker exports: at present the fairness report.

Needs pyspark and pyarrow only and imports no other package of Sluice: the Parquet files, as
`metrics_schema.json` describes them, are the whole contract with the broker.
"""
