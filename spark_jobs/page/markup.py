"""HTML elements. All text is escaped, except `Html`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from spark_jobs import formats

FOLDER: Final = "tables"  # next to the page, with the CSV of every table
WIDE: Final = 960.0  # widths of plots for wide and for narrow screens
NARROW: Final = 340.0
LONGEST_TITLE: Final = 400  # letters of a name in its tooltip; MQTT allows 65,535 bytes


class Html(str):
    """Markup that needs no escaping."""

    __slots__ = ()

    def __html__(self) -> str:
        """For templates, which escape all else."""
        return str(self)


def safe(content: str) -> Html:
    """Text as markup: escaped unless it is `Html`."""
    return content if isinstance(content, Html) else Html(escape(content))


def tag(name: str, *children: str, **attributes: str | None) -> Html:
    """An element; class_ is class, a_b is a-b, None is left out. Children that are plain text are escaped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{''.join(safe(child) for child in children)}</{name}>")


def join(parts: Iterable[str], by: str = "") -> Html:
    """Several pieces, escaped and joined."""
    return Html(by.join(safe(part) for part in parts))


@dataclass(frozen=True)
class Section:
    """A section of the page, which is folded.

    Attributes:
        id: its anchor.
        title: its heading.
        told: what is inside, in a sentence beside the heading; or why nothing is.
        parts: its content; a section without any has nothing to say.
    """

    id: str
    title: str
    told: str
    parts: tuple[Html, ...] = ()


def note(content: str) -> Html:
    """A remark in small print."""
    return tag("p", content, class_="note")


def csv_link(name: str) -> Html:
    """A link to a table's CSV file."""
    return tag("a", f"{name}.csv", href=f"{FOLDER}/{name}.csv", class_="csv")


def name_of(text: str, longest: int = formats.LONGEST_NAME) -> Html:
    """A client id or another external name, truncated; the tooltip has more of it."""
    name = formats.name(text, longest)
    shown = name if text.strip() else f"“{name}”" if text else formats.DASH
    title = formats.name(text, LONGEST_TITLE)
    return tag("span", shown, class_="id", title=title if title != shown else None)


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """A legend: class and text of each entry."""
    items = [
        tag("li", Html(f'<i class="{escape(class_)}"></i>'), content, class_=class_) for class_, content in entries
    ]
    return tag("ul", *items, class_="legend")


def figure(title: str, how: str, *drawings: str, data: Sequence[str] = (), key: Html | str = "") -> Html:
    """A plot with its title and an explanation of how to read it; `data` are its result tables."""
    links = [tag("p", "Data: ", join(map(csv_link, data), by=", "), class_="data")] if data else []
    caption = tag("figcaption", tag("strong", title), tag("span", how, class_="how"))
    return tag("figure", caption, key, *drawings, *links)


def small_figure(title: Html | str, drawing: str, *below: str) -> Html:
    """One of several plots with a common explanation."""
    return tag("figure", tag("figcaption", title), drawing, *below, class_="small")


def beside(*children: str, class_: str = "plots") -> Html:
    """Plots side by side if there is room."""
    return tag("div", *children, class_=class_)


def both(draw: Callable[[float], str]) -> Html:
    """The same plot twice, for wide and for narrow screens; the style sheet shows one."""
    return Html(f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>')
