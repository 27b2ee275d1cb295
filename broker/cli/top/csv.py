"""Lists of the admin socket as CSV: one row for each of what is listed, with the time at which it was."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from broker.cli.top.view import printable

_LEFT_OUT: Final = "started_us"
"""On a clock that says nothing to others."""

_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What spreadsheets take a cell for a formula by: they would run what a client calls itself."""


def as_csv(answer: dict[str, Any], head: bool) -> str:
    """The answer as lines; `head`: below the names of the columns."""
    columns = [name for name in answer["columns"] if name != _LEFT_OUT]
    places = [answer["columns"].index(name) for name in columns]
    time = datetime.fromtimestamp(answer["time_us"] / 1e6, UTC).isoformat(timespec="milliseconds")
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    if head:
        writer.writerow(["time", "broker", *columns])
    for row in answer["rows"]:
        writer.writerow([_cell(cell) for cell in (time, answer["broker"], *(row[place] for place in places))])
    return text.getvalue()


def append(file: Path, answer: dict[str, Any]) -> None:
    """Write to the end of the file, which is made if it is missing. Raises ValueError if it holds something else."""
    head = as_csv(answer | {"rows": []}, head=True)
    with file.open("a+", encoding="utf-8", errors="replace", newline="") as opened:
        opened.seek(0)
        found = opened.readline(len(head) + 1)
        if found not in ("", head):
            raise ValueError(f"it does not begin as a list of {answer['command']} does: write to another file")
        opened.write(as_csv(answer, head=not found))


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
