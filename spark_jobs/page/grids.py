"""Tables of the page. The script sorts and filters them; without it they are static."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from spark_jobs import formats
from spark_jobs.page.markup import Html, name_of, tag
from spark_jobs.page.templates import fill

LONGEST_NAME: Final = 34  # letters of a name in a table; the tooltip has more
FOLDED: Final = 12  # longer tables are folded if another one summarizes them


@dataclass(frozen=True)
class Cell:
    """Displayed text, and the number for sorting; without one the text is sorted."""

    shown: str
    value: float | None = None

    @property
    def data(self) -> str | None:
        """The number for the script."""
        return None if self.value is None else f"{self.value:.10g}"


@dataclass(frozen=True)
class Column:
    """One column: its head, whether it has text, and the tooltip of its head."""

    head: str
    text: bool = False
    title: str | None = None
    wrap: bool = False

    @property
    def class_(self) -> str:
        """The class of its cells."""
        return " ".join(name for name, used in (("words", self.text), ("wrap", self.wrap)) if used)


def number(value: float | None) -> Cell:
    """A count."""
    return Cell(formats.count(value), value)


def share(value: float | None) -> Cell:
    """A fraction as per cent."""
    return Cell(formats.percent(value), value)


def index(value: float | None) -> Cell:
    """An index between 0 and 1."""
    return Cell(formats.index(value), value)


def time(value: float | None) -> Cell:
    """A length of time in microseconds."""
    return Cell(formats.micros(value), value)


def moment(value: int | None) -> Cell:
    """A time in microseconds since 1970, to the minute."""
    return Cell(formats.DASH if value is None else formats.minute(value), value)


def name(value: str | None) -> Cell:
    """An external name."""
    return Cell(name_of(value or "", LONGEST_NAME))


def meter(fraction: float | None, class_: str) -> Html:
    """A small bar for a share."""
    width = 0.0 if fraction is None else max(0.0, min(1.0, fraction)) * 96
    least = 1.0 if width else 0.0
    return Html(
        f'<svg class="meter {escape(class_)}" viewBox="0 0 96 8" aria-hidden="true">'
        f'<rect class="track" width="96" height="8" rx="2"/>'
        f'<rect class="bar" width="{max(width, least):.1f}" height="8" rx="2"/></svg>'
    )


def grid(id_: str, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], data: Sequence[str]) -> Html:
    """A table with its title; a wide one scrolls sideways. `data`: the result tables, which are linked."""
    lines = ([*zip(columns, row, strict=True)] for row in rows)
    return fill("table.html", id=id_, title=title, columns=columns, rows=lines, data=data)


def folded(summary: str, content: Html) -> Html:
    """Collapsed content; expanded in print."""
    return tag("details", tag("summary", summary), content)
