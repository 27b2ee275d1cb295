"""The sections on waiting: their figures are those of the rows that were measured."""

import re
from dataclasses import replace
from html import unescape

import pytest

from spark_jobs.page import render
from tests.support.spark.sample_result import sample_result

pytestmark = pytest.mark.once


def texts(page: str) -> list[str]:
    """All texts between elements; titles say again what may be cut."""
    page = re.sub("<title>[^<]*</title>", "", page)
    return [unescape(text).replace("\u202f", " ") for text in re.findall(">([^<>]+)<", page)]


def test_no_figure_depends_on_the_place_of_its_row() -> None:
    """With the rows of the small tables in reverse, the page has the same texts."""
    result = sample_result()
    small = ("totals", "books", "queues", "gate", "head_of_line", "percentiles", "fairness")
    turned = {name: result.tables[name].take(list(range(result.tables[name].num_rows))[::-1]) for name in small}
    other = replace(result, tables={**result.tables, **turned})
    assert sorted(texts(render([other]))) == sorted(texts(render([result])))
