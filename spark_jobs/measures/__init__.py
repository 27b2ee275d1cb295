"""Computes the tables of the report from compacted hours: one file per measure.

Spark aggregates everything that grows with the number of sessions or of intervals: functions from DataFrame to
DataFrame. The rows of a table are made of these sums in whole numbers, so that the same input gives the same bytes.
MEASURES.md has every formula.
"""
