"""Lists of the admin API as CSV: one row per item, with the time of the list."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from broker.admin.rows import AddressRow, GroupRow, SessionRow
from broker.cli.top.table import printable

_ROWS: Final[dict[str, type[BaseModel]]] = {"sessions": SessionRow, "groups": GroupRow, "addresses": AddressRow}
"""The columns, for lists without items too."""

_LEFT_OUT: Final = "started_us"
"""Not exported: it is a time of the broker's monotonic clock."""

_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""Characters that begin a formula in spreadsheets, which would execute a client id like that."""


def as_csv(answer: dict[str, Any], head: bool) -> str:
    """The answer as CSV lines; `head`: with a header line."""
    columns = [name for name in _ROWS[answer["what"]].model_fields if name != _LEFT_OUT]
    time = datetime.fromtimestamp(answer["time_us"] / 1e6, UTC).isoformat(timespec="milliseconds")
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    if head:
        writer.writerow(["time", "broker", *(["cell"] if "cells" in answer else []), *columns])
    for item in answer["items"]:
        place = [item["cell"]] if "cells" in answer else []
        writer.writerow([_cell(cell) for cell in (time, answer["broker"], *place, *(item[name] for name in columns))])
    return text.getvalue()


def append(file: Path, answer: dict[str, Any]) -> None:
    """Append to the file, or create it. Raises ValueError if the file has other contents."""
    head = as_csv(answer | {"items": []}, head=True)
    with file.open("a+", encoding="utf-8", errors="replace", newline="") as opened:
        opened.seek(0)
        found = opened.readline(len(head) + 1)
        if found not in ("", head):
            raise ValueError(f"it does not begin as a list of {answer['what']} does: write to another file")
        opened.write(as_csv(answer, head=not found))


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
