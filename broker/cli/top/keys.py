"""Reads single keys from the terminal."""

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any, Final, Self

_LONGEST: Final = 100
"""Bytes that are read as one key: some keys send several."""


class Keys:
    """Reads keys without echo and without Enter; if standard input is no terminal there are no keys."""

    def __init__(self) -> None:
        self._terminal = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        if self._terminal is not None:
            self._before = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal)  # Ctrl-C still interrupts
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal is not None:
            termios.tcsetattr(self._terminal, termios.TCSAFLUSH, self._before)

    def wait(self, seconds: float) -> str:
        """The next key; an empty string if there is none within this time, `q` at the end of input."""
        if self._terminal is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        return (os.read(self._terminal, _LONGEST).decode(errors="replace") or "q") if ready else ""
