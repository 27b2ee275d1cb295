"""The command `sluice top`: the longest queues, live in the terminal, once, or as CSV."""

import os
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from broker.admin.client import AdminError
from broker.admin.listing import DEFAULT_LIMIT, MOST_ROWS
from broker.cli.socket import ConfigFile, Socket, socket_path
from config.units import parse_duration

FAILED: Final = 1
"""Exit status when there is no answer or it cannot be written."""

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as in shells."""

SHORTEST_INTERVAL: Final = 1.0
"""Seconds; the broker does not update its lists more often."""


class What(StrEnum):
    """What can be listed."""

    SESSIONS = "sessions"
    GROUPS = "groups"
    ADDRESSES = "addresses"


class Sort(StrEnum):
    """All sort keys; the broker checks which ones a list has."""

    MAILBOX = "mailbox"
    MQUEUE = "mqueue"
    BYTES = "bytes"
    WINDOW_FULL = "window_full"
    DROPS = "drops"
    PATIENCE = "patience"
    WINDOW = "window"
    SENT = "sent"
    NAME = "name"
    WAITING = "waiting"
    REFUSED = "refused"


_KEYS: Final = (
    "Highest first: mailbox, mqueue (the default), bytes, window, window_full, sent, drops or patience (how long "
    "publishers were held back for it); groups have mqueue, bytes, drops and patience, addresses bytes (their "
    "default), waiting, refused and drops; all have name."
)


def _seconds(text: str) -> float:
    """A duration with its unit, or a number of seconds."""
    try:
        with suppress(ValueError):
            text = f"{float(text)}s"
        seconds = parse_duration(text, unlimited=False)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if seconds < SHORTEST_INTERVAL:
        raise typer.BadParameter(f"found {text}: the shortest is {SHORTEST_INTERVAL:g}s")
    return seconds


def top(  # noqa: PLR0913, PLR0917 - a command's options
    what: Annotated[What, typer.Argument(help="Sessions, shared groups, or addresses.")] = What.SESSIONS,
    sort: Annotated[Sort | None, typer.Option(metavar="KEY", help=_KEYS)] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_ROWS, metavar="N", help=f"Rows; as many as fit, or {DEFAULT_LIMIT} with --once."),
    ] = None,
    interval: Annotated[float, typer.Option(parser=_seconds, metavar="TIME", help="Time between updates.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Append to this file as CSV; with --once in place of the table."),
    ] = None,
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Show the sessions that have most waiting in a running broker.

    In a terminal the list is live: q ends it, s sorts it by the next key. Elsewhere it is printed once.
    """
    from broker.cli.top.output import STANDARD_OUTPUT, Question, show, watch

    live = sys.stdout.isatty() and not once and out != STANDARD_OUTPUT
    try:
        question = Question(socket_path(socket, config_file), what, sort, limit)
        if live:
            watch(question, interval, out)
        else:
            show(question, out)
            sys.stdout.flush()
    except AdminError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except OSError as error:  # of standard output: errors of files are AdminError
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails
        if not isinstance(error, BrokenPipeError):
            print(f"sluice: standard output cannot be written to: {error.strerror}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(0 if live else INTERRUPTED) from None
