"""Batch jobs over the metrics that a Sluice broker exports: the fairness report.

Needs only pyspark, pyarrow and deltalake and imports no other package of Sluice: the Parquet files, described in
`metrics_schema.json`, are the contract with the broker.
"""
