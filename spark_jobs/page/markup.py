"""Pieces of HTML. Plain text is escaped wherever it enters; only `Html` passes as it is."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

from spark_jobs import words

FOLDER: Final = "tables"  # beside the page, with the CSV of every table
WIDE: Final = 960.0  # widths that plots are drawn at, for wide screens and for narrow ones
NARROW: Final = 340.0
LONGEST_TITLE: Final = 400  # letters of a name that show when it is pointed at; MQTT allows 65,535 bytes


class Html(str):
    """Markup that is safe as it stands."""

    __slots__ = ()


def safe(content: str) -> Html:
    """Text as markup: escaped unless it is markup already."""
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
    """Several pieces in a row."""
    return Html(by.join(safe(part) for part in parts))


def section(title: str, *children: str, id_: str) -> Html:
    """A part of the page under its heading, which links to itself."""
    return tag("section", tag("h2", tag("a", title, href=f"#{id_}")), *children, id=id_)


def lead(content: str) -> Html:
    """The sentence that says what a section found."""
    return tag("p", content, class_="lead")


def note(content: str) -> Html:
    """A remark in small print."""
    return tag("p", content, class_="note")


def nothing(content: str) -> Html:
    """Said where a plot or a table would be empty."""
    return tag("p", content, class_="nothing")


def csv_link(name: str) -> Html:
    """Where the numbers are."""
    return tag("a", f"{name}.csv", href=f"{FOLDER}/{name}.csv", class_="csv")


def name_of(text: str, longest: int = words.LONGEST_NAME) -> Html:
    """A client id or another name from outside: as much of it as fits, and more when pointed at."""
    shown = words.name(text, longest) if text.strip() else f"“{words.name(text, longest)}”" if text else words.DASH
    title = words.name(text, LONGEST_TITLE)
    return tag("span", shown, class_="id", title=title if title != shown else None)


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Names of what is drawn: class and text of each."""
    items = [
        tag("li", Html(f'<i class="{escape(class_)}"></i>'), content, class_=class_) for class_, content in entries
    ]
    return tag("ul", *items, class_="legend")


def figure(title: str, how: str, *drawings: str, data: Sequence[str] = (), key: Html | str = "") -> Html:
    """A plot under its title and the sentence that says how to read it; `data` are the tables behind it."""
    links = [tag("p", "Data: ", join(map(csv_link, data), by=", "), class_="data")] if data else []
    caption = tag("figcaption", tag("strong", title), tag("span", how, class_="how"))
    return tag("figure", caption, key, *drawings, *links)


def small_figure(title: Html | str, drawing: str, *below: str) -> Html:
    """One of several plots of a kind, which are explained together."""
    return tag("figure", tag("figcaption", title), drawing, *below, class_="small")


def grid(*children: str, class_: str = "plots") -> Html:
    """Plots side by side where there is room."""
    return tag("div", *children, class_=class_)


def both(draw: Callable[[float], str]) -> Html:
    """The same plot twice, for wide and for narrow screens; the style sheet shows one."""
    return Html(f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>')
