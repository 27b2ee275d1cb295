"""A table as data, to be shown on a terminal or written as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table


@dataclass
class Grid:
    """Rows of text under a title. The first column is on the left, numbers are on the right."""

    title: str
    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    bad_rows: set[int] = field(default_factory=set)
    """Numbers of rows that are highlighted."""

    def add(self, *cells: str, bad: bool = False) -> None:
        """Append a row."""
        if bad:
            self.bad_rows.add(len(self.rows))
        self.rows.append(list(cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(title=escape(self.title), title_justify="left", title_style="bold", header_style="bold")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=number > 0)
        for number, row in enumerate(self.rows):
            table.add_row(*map(escape, row), style="red" if number in self.bad_rows else None)
        yield table

    def markdown(self) -> str:
        """Return the table with its title as a heading."""
        lines = [f"### {self.title}", "", _line(self.columns), _line(["---", *["---:"] * (len(self.columns) - 1)])]
        return "\n".join([*lines, *(_line(row) for row in self.rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def rounded(value: float) -> str:
    """Return a number with its significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def short(value: float) -> str:
    """Return a large number with k or M."""
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{rounded(value / limit)} {letter}"
    return rounded(value)
