"""The page that people read: one HTML file with everything in it, made from the small tables of one run or two."""

from spark_jobs.page.document import render

__all__ = ["render"]
