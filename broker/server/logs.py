"""Logging: structlog to standard error, as text or JSON lines, with the records of Python's own `logging`."""

import logging
import os
import sys
from typing import TextIO, cast

import structlog

from config.models import Log


def configure(log: Log) -> None:
    """Set the configured level and format."""
    rendering: list[structlog.types.Processor]
    if log.format == "json":  # its strings are ASCII, without control characters
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        rendering = [
            _printable,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, log.level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, StandardError())),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Forward(logging.WARNING)], level=logging.WARNING, force=True)
    logging.captureWarnings(True)


def _printable(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Escape what clients may send to forge lines, or to control the terminal that shows them."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable() and key != "exception":
            event[key] = repr(value)
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
