"""The page of a report: one self-contained HTML file, built from the result tables of one run or two."""

from spark_jobs.page.document import render

__all__ = ["render"]
