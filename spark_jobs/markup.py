"""Pieces of HTML. Plain text is escaped wherever it enters; only `Html` passes as it is."""

from collections.abc import Iterable, Sequence
from html import escape

from spark_jobs import words


class Html(str):
    """Markup that is safe as it stands."""

    __slots__ = ()


def safe(content: str) -> Html:
    """Text as markup: escaped unless it is markup already."""
    return content if isinstance(content, Html) else Html(escape(content))


def tag(name: str, *children: str, **attributes: str) -> Html:
    """An element; class_ is class. Children that are plain text are escaped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{written}>{''.join(safe(child) for child in children)}</{name}>")


def join(parts: Iterable[str], by: str = "") -> Html:
    """Several pieces in a row."""
    return Html(by.join(safe(part) for part in parts))


def section(title: str, *children: str, id_: str) -> Html:
    """A part of the page under its heading."""
    return tag("section", tag("h2", title), *children, id_=id_)


def how(content: str) -> Html:
    """The sentence that says how a plot is read."""
    return tag("p", content, class_="how")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: Sequence[int] = (0,)) -> Html:
    """A table that scrolls sideways by itself where it is too wide; `text_columns` are set to the left."""
    head = join(
        tag("th", content, class_="words") if i in text_columns else tag("th", content)
        for i, content in enumerate(heads)
    )
    body = join(
        tag("tr", join(_cell(content, i in text_columns) for i, content in enumerate(row))) for row in rows
    )
    return tag("div", tag("table", tag("thead", tag("tr", head)), tag("tbody", body)), class_="scroll")


def _cell(content: str, is_text: bool) -> Html:
    if isinstance(content, Html) and content.startswith("<td"):
        return content
    return tag("td", content, class_="words") if is_text else tag("td", content)


def name_cell(name: str) -> Html:
    """A cell with a client id or file name: as much of it as fits, and more when pointed at."""
    return Html(f'<td class="id" title="{escape(words.name(name, 400))}">{escape(words.name(name))}</td>')


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Names of what is drawn: class and text of each."""
    items = [
        tag("li", Html(f'<i class="{escape(class_)}"></i>'), content, class_=class_)
        for class_, content in entries
    ]
    return tag("ul", *items, class_="legend")


def figure(*children: str, caption: str = "") -> Html:
    """A plot with its caption."""
    return tag("figure", *([tag("figcaption", caption)] if caption else []), *children)


def meter(share: float | None, class_: str) -> Html:
    """A little bar for a share."""
    width = 0.0 if share is None else max(0.0, min(1.0, share)) * 100
    bar = f'<i style="width:{width:.2f}%"></i>' if width else ""
    return Html(f'<span class="meter {escape(class_)}">{bar}</span>')
