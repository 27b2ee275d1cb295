"""Pieces of HTML: plain text is escaped wherever it enters."""

import pytest

from spark_jobs import markup
from spark_jobs.markup import Html

pytestmark = pytest.mark.once

SCRIPT = "<script>alert('x')</script>"
ESCAPED = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"


def test_text_is_escaped_everywhere() -> None:
    """As a child, in an attribute, in a table's head and cells, in a legend and as a name."""
    pieces = [
        markup.tag("p", SCRIPT, title=f'"{SCRIPT}'),
        markup.join([SCRIPT]),
        markup.table([SCRIPT], [[SCRIPT, SCRIPT]]),
        markup.legend([("q0", SCRIPT)]),
        markup.name_cell(SCRIPT),
        markup.figure(Html("<svg/>"), caption=SCRIPT),
        markup.section(SCRIPT, SCRIPT, id_="x"),
        markup.how(SCRIPT),
        markup.meter(0.5, '"><script>'),
    ]
    for piece in pieces:
        assert "<script" not in piece
    assert pieces[0] == f'<p title="&quot;{ESCAPED}">{ESCAPED}</p>'


def test_markup_is_not_escaped_twice() -> None:
    """What is markup already passes as it is."""
    assert markup.tag("p", markup.tag("b", "a & b")) == "<p><b>a &amp; b</b></p>"


def test_meters_stay_in_their_frame() -> None:
    """A share above 1 fills the meter, one below 0 or none leaves it empty."""
    assert "width:100.00%" in markup.meter(3, "q0")
    assert "width" not in markup.meter(None, "q0")
    assert "width" not in markup.meter(-1, "q0")
