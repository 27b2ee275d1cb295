"""Logging: structlog to standard error, as text or JSON lines, with the records of Python's own `logging`.

If systemd's journal reads standard error, lines that would be text go to it with their fields.
"""

import logging
import os
import sys
from functools import partial
from typing import Final, TextIO, cast

import structlog

from broker.log_limits import LIMITS
from broker.server.console import Console
from broker.server.journald import Journald, reads
from config.models import Log

STDERR: Final = 2
"""The descriptor of standard error."""
AUDIT: Final = "audit"
"""The event of actions of operators, which no level silences, and no limit, unless they were refused."""
THROTTLED: Final = "log_throttled"
"""The event that says how many lines of another one were left out."""

_LEVELS: Final = {**logging.getLevelNamesMapping(), **{k.lower(): v for k, v in logging.getLevelNamesMapping().items()}}
_SOURCES: Final = ("listener", "who")
"""Keys of a line that say where those come from who cause it."""
_lowest = logging.INFO


def configure(log: Log, cell: int = 0) -> None:
    """Set the configured level, limit and format. `cell`: the number of this process, if there are several."""
    set_level(log.level)
    limit(log.max_lines)
    rendering: list[structlog.types.Processor]
    if log.format == "json":  # its strings are ASCII, without control characters
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        rendering = [*_journal(), Console(sys.stderr.isatty())]
    structlog.configure(
        processors=[
            _drop_below_level,
            _drop_beyond_limit,
            *([partial(_add_cell, cell)] if cell else []),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),  # `_drop_below_level` decides
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, StandardError())),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Forward(logging.WARNING)], level=logging.WARNING, force=True)
    logging.captureWarnings(True)


def _journal() -> list[structlog.types.Processor]:
    """What sends lines to systemd's journal, if it reads standard error."""
    if not reads(STDERR):
        return []
    try:
        return [structlog.processors.format_exc_info, Journald()]
    except OSError:
        return []  # then it has the text


def set_level(level: str) -> None:
    """Change the lowest level that is written."""
    global _lowest
    _lowest = getattr(logging, level.upper())


def _drop_below_level(_: object, method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Drop what is below the level, except for what operators have done."""
    if _LEVELS.get(method, _lowest) < _lowest and event.get("event") != AUDIT:
        raise structlog.DropEvent
    return event


def limit(most: int) -> None:
    """Change how many lines an event may have in ten seconds, from one source; 0 = any number."""
    LIMITS.most = most


def tell_left_out(*, last: bool = False) -> None:
    """Log how many lines were left out in a period that is over; `last`: in this one too, as no more will come."""
    if last:
        LIMITS.end()
    for event, source, lines, client_id in LIMITS.take():
        of_client = {"client_id": client_id} if client_id else {}
        structlog.get_logger("sluice").warning(THROTTLED, of=event, source=source, **of_client, left_out=lines)


def _drop_beyond_limit(_: object, method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Drop what an event has too many lines of, but nothing that an operator has done, and nothing at level debug."""
    name = event.get("event")
    if method == "debug" or name == THROTTLED or (name == AUDIT and not event.get("refused")):
        return event
    source = next((str(event[key]) for key in _SOURCES if key in event), "")
    if not LIMITS.admit(str(name), source, str(event.get("client_id", ""))):
        raise structlog.DropEvent
    return event


def _add_cell(cell: int, _: object, method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Say which of several processes a line is of."""
    event.setdefault("cell", cell)
    return event


class StandardError:
    """Standard error. If it has been closed, the broker continues without a log."""

    def write(self, text: str) -> None:
        """Write `text`; after the first error nothing more is written."""
        try:
            sys.stderr.write(text)
        except OSError:
            self._give_up()

    def flush(self) -> None:
        """Flush what has been written."""
        try:
            sys.stderr.flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """Redirect standard error to /dev/null, with what is still in Python's buffer."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


class _Forward(logging.Handler):
    """Forwards the log records of asyncio and other libraries, so that the whole log has one format."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as an event `library`."""
        log = structlog.get_logger("sluice")
        log.log(record.levelno, "library", logger=record.name, detail=record.getMessage(), exc_info=record.exc_info)
