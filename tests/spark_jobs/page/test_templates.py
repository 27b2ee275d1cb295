"""The templates: what is put into them is escaped, and nothing may be missing."""

import pytest
from jinja2 import UndefinedError

from spark_jobs.page.grids import Column, grid, words
from spark_jobs.page.markup import tag
from spark_jobs.page.templates import fill
from spark_jobs.page.words import WORDS

pytestmark = pytest.mark.once

HOSTILE = "<script>alert('x')</script> \" onload=\"y"


def test_text_is_escaped_in_every_place_and_markup_is_kept() -> None:
    """In a head, its tooltip, a title and a cell; an element that the program made stays one."""
    columns = [words(HOSTILE, "a"), Column(HOSTILE, "b", lambda value: tag("b", str(value)), title=HOSTILE, text=True)]
    made = grid("t", HOSTILE, columns, [{"a": HOSTILE, "b": HOSTILE}])
    assert "<script>" not in made
    assert 'onload="' not in made
    assert made.count("&lt;script&gt;") == 6
    assert "<b>&lt;script&gt;" in made


def test_a_missing_value_is_an_error() -> None:
    """Not an empty place on the page."""
    with pytest.raises(UndefinedError, match="title"):
        fill("table.html", id="t", columns=[], rows=[], data=[])


def test_every_text_has_words() -> None:
    """No text is empty, or has markup that would be shown as such."""
    for texts in WORDS.values():
        for name, text in texts.items():
            assert text.strip(), name
            assert "<" not in text.replace("< ", ""), name
