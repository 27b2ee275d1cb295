"""`sluice ctl bridges`: the connections to other brokers, and why one is not there."""

import json
import sys
from typing import Annotated, Any, Final

import typer

from broker.admin.client import AdminError, ask
from broker.admin.listing import MOST_ROWS
from broker.cli.socket import ConfigFile, Socket, socket_path
from broker.cli.top.table import printable, short, span

FAILED: Final = 1
"""Exit status when there is no answer, or a refusal."""
_HEAD: Final = ("bridge", "state", "remote broker", "queue", "oldest", "sent", "refused", "why")


def bridges(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Print the bridges: connections to other brokers.

    It says for how long each is connected, or why it is not, how much waits in it, and for how long.
    """
    try:
        answer = ask(socket_path(socket, config_file), "/bridges", {"limit": MOST_ROWS})
    except AdminError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    for cell in answer.get("unanswered", ()):
        print(f"sluice: {cell}", file=sys.stderr)
    found = answer["items"]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    lines = [_HEAD, *map(_line, found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines if found else []:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    if row["next_attempt_seconds"] is None:
        state = f"{row['state']} for {_span(row['state_seconds'])}"
    else:
        state = f"{row['state']}, again in {_span(row['next_attempt_seconds'])}"
    refused = ", ".join(row["filters_refused"])
    return (
        row["bridge"],
        state,
        printable(row["remote"] or "-"),
        short(row["queue"]),
        _span(row["oldest_seconds"]) if row["queue"] else "-",
        short(row["sent"]),
        short(row["refused_out"] + row["refused_in"]),
        printable(row["failure"] or (refused and f"the remote broker refuses {refused}")),
    )


def _span(seconds: float) -> str:
    return span(round(seconds * 1e6))
