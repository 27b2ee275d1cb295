"""From compacted hours to the small tables of the report: one file per measure.

What grows with sessions stays with Spark, which adds it up or picks the first few; from those sums the measures are
worked out in whole numbers, so that the same input gives the same bytes. MEASURES.md has every formula.
"""
