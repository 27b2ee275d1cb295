"""The output of `sluice top`, to the terminal and to files."""

import io
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from broker.admin.client import AdminError, NoBrokerError, ask
from broker.admin.listing import DEFAULT_LIMIT, MOST_ROWS
from broker.cli.top.csv import append, as_csv
from broker.cli.top.keys import Keys
from broker.cli.top.table import HEAD_LINES, Snapshot, next_key, view

STANDARD_OUTPUT: Final = Path("-")
"""The file name that stands for standard output."""

UNLIMITED_WIDTH: Final = 1_000
"""Columns if the output is no terminal, so that nothing is cut."""


@dataclass
class Question:
    """A request and the socket of its broker."""

    path: Path
    what: str
    sort: str | None
    """None = the broker's default."""
    limit: int | None
    """None = as many as fit."""

    def ask(self, limit: int) -> dict[str, Any]:
        """The answer; `limit` is used if the question has none. Raises AdminError if there is no answer."""
        return ask(self.path, f"/{self.what}", {"sort": self.sort, "limit": self.limit or limit})


def show(question: Question, out: Path | None) -> None:
    """Print the table, or write CSV, once."""
    _print_whatever_it_is()
    answer = question.ask(DEFAULT_LIMIT)
    if out == STANDARD_OUTPUT:
        sys.stdout.write(as_csv(answer, head=True))
    elif out is not None:
        _append(out, answer)
    else:
        console = Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH)
        console.print(view(Snapshot(answer), console.width, live=False), crop=False)


def watch(question: Question, interval: float, out: Path | None) -> None:
    """Show the list, and append it to the file, until the user quits or the broker stops."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # sys.exit restores the terminal
    _print_whatever_it_is()
    console = Console()
    snapshot: Snapshot | None = None
    answer = question.ask(_that_fit(console))
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as display:
        while True:
            snapshot = Snapshot(answer, snapshot)
            display.update(view(snapshot, console.width), refresh=True)
            if out is not None:
                _append(out, answer)
            key = keys.wait(interval)
            if key == "q":
                return
            if key == "s":
                question.sort = next_key(question.what, answer["sort"])
            try:
                answer = question.ask(_that_fit(console))
            except NoBrokerError:
                raise AdminError(f"{question.path}: the broker has closed the connection") from None


def _print_whatever_it_is() -> None:
    """Escape characters that standard output's encoding lacks: client ids may contain any."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _that_fit(console: Console) -> int:
    return min(max(console.height - HEAD_LINES, 1), MOST_ROWS)


def _append(file: Path, answer: dict[str, Any]) -> None:
    try:
        append(file, answer)
    except (OSError, ValueError) as error:
        raise AdminError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
