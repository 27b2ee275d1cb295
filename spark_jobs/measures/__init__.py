"""Computes the tables of the report from compacted hours: one file per measure.

Spark aggregates everything that grows with the number of sessions; the measures are computed from these sums in whole
numbers, so that the same input gives the same bytes. MEASURES.md has every formula.
"""
