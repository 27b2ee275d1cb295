"""Progress of a job as lines on stderr: what was done, how much, how long it took."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Stage:
    """One step of the job; its last line shows `note` and the time."""

    def __init__(self) -> None:
        self.note = ""


class Progress:
    """Prints a line when a stage begins and one when it ends.

    Args:
        stream: output of the lines; default: stderr.
        quiet: print only warnings.
        command: each line begins with it.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False, command: str = "report") -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._quiet = quiet
        self._command = command
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        if not self._quiet:
            self._print(text)

    def warn(self, text: str) -> None:
        """Print one line even when quiet."""
        self._print(f"warning: {text}")

    @contextmanager
    def stage(self, text: str) -> Iterator[Stage]:
        """Print `text`, run the block, then print the stage's note and its duration."""
        stage = Stage()
        self.say(f"{text} ...")
        begun = time.monotonic()
        yield stage
        note = f": {stage.note}" if stage.note else ""
        self.say(f"  done{note} ({time.monotonic() - begun:.1f} s)")

    def _print(self, text: str) -> None:
        elapsed = time.monotonic() - self._started
        self._stream.write(f"{self._command} {elapsed:6.1f} s  {text}\n")
        self._stream.flush()
