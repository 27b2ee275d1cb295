"""The command `sluice top`: the longest queues, live in the terminal, once, or as CSV."""

import os
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

import config
from broker.admin import DEFAULT_LIMIT, MOST_ROWS
from broker.admin.client import AdminError, find
from broker.admin.socket import default_places
from broker.cli.options import CONFIG_PROBLEM
from config.admin import CHOSEN
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
    WAITING = "waiting"
    REFUSED = "refused"


_KEYS: Final = (
    "Highest first: mailbox, mqueue (the default), bytes, window_full, drops or patience (how long publishers were "
    "held back for it); groups have mqueue, bytes, drops and patience, addresses bytes (their default), waiting, "
    "refused and drops."
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
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The broker's admin socket, if it is not at the default path.")
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The broker's configuration, to find it by.")
    ] = None,
) -> None:
    """Show the sessions that have most waiting in a running broker.

    In a terminal the list is live: q ends it, s sorts it by the next key. Elsewhere it is printed once.
    """
    from broker.cli.top.output import STANDARD_OUTPUT, Question, show, watch

    live = sys.stdout.isatty() and not once and out != STANDARD_OUTPUT
    try:
        question = Question(socket if socket is not None else _found(config_file), what, sort, limit)
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


def _found(file: Path | None) -> Path:
    """The socket of a broker that runs on this machine with this configuration."""
    try:
        loaded = config.load(file).config
    except config.ConfigError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(CONFIG_PROBLEM) from None
    wanted = loaded.admin.socket
    if wanted is None:
        raise AdminError("a broker with this configuration has no admin socket: admin.socket is null")
    if wanted != CHOSEN:
        return Path(wanted)
    try:
        return find(default_places(loaded.node_name))
    except OSError as error:  # there is no directory for temporary files
        raise AdminError(str(error)) from None
