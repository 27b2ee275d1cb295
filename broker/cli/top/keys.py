"""Single keys from the terminal, while something is shown there."""

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any, Final, Self

_LONGEST: Final = 100
"""Bytes that are taken for one key: some send several."""


class Keys:
    """Takes keys as they are typed, and shows none of them; without a terminal to type at there are none."""

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
        """The next key, or an empty string if there is none within this time; where there will be none any more, q."""
        if self._terminal is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        return (os.read(self._terminal, _LONGEST).decode(errors="replace") or "q") if ready else ""
