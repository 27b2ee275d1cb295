"""The log as text for people: one line for each event. What belongs to it and takes more lines is indented.

Nothing that a client sends begins a line, or controls the terminal that shows it.
"""

from io import StringIO
from typing import Final, TextIO

import structlog

_LONG: Final = ("file_not_read", "reload_failed")
"""Events whose detail may have several lines: it lists the mistakes in what an operator has written."""
_INDENT: Final = "\n    "


class Console:
    """The last processor of a line."""

    def __init__(self, colors: bool) -> None:
        self._render = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_traceback)

    def __call__(self, logger: object, method: str, event: structlog.types.EventDict) -> str:
        """The text of an event."""
        more: list[str] = []
        if event.get("event") in _LONG:
            event["detail"], *more = str(event["detail"]).split("\n")
        for key, value in event.items():
            if isinstance(value, str) and not value.isprintable() and key != "exception":
                event[key] = _Escaped(value)
        text = self._render(logger, method, event)
        return text + "".join(_INDENT + _escaped(line) for line in more)


class _Escaped:
    """Text in quotes, with its control characters escaped. It is no string, which would be quoted once more."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _escaped(line: str) -> str:
    return line if line.isprintable() else repr(line)[1:-1]


def _traceback(target: TextIO, error: structlog.typing.ExcInfo) -> None:
    """Write a traceback, indented and escaped: an error may quote what a client has sent, line ends too."""
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    target.write("".join(f"\n  {_escaped(line)}" for line in text.getvalue().splitlines() if line))
