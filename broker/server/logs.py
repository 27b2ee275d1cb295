"""Logging: structlog to standard error, for people or as JSON lines; what Python logs by itself goes the same way."""

import logging
import os
import sys
from typing import TextIO, cast

import structlog

from config.models import Log


def configure(log: Log) -> None:
    """Set the level and the format that the configuration asks for."""
    rendering: list[structlog.types.Processor]
    if log.format == "json":
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        rendering = [
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


class StandardError:
    """Standard error, which may go away: a log that nobody can read must not stop the broker."""

    def write(self, text: str) -> None:
        """Write `text`, or give up writing for good when nobody reads any more."""
        try:
            sys.stderr.write(text)
        except OSError:
            self._give_up()

    def flush(self) -> None:
        """Hand over what has been written."""
        try:
            sys.stderr.flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """From now on everything goes nowhere, what is still in Python's buffer too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


class _Forward(logging.Handler):
    """Passes on what asyncio and other libraries log, so that standard error has one form."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log it as an event of its own."""
        log = structlog.get_logger("sluice")
        log.log(record.levelno, "library", logger=record.name, detail=record.getMessage(), exc_info=record.exc_info)
