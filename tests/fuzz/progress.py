"""What a run of the fuzzer tells while it goes on."""

import re
import time
from typing import Final

EVERY: Final = 10.0
"""Seconds between two lines."""

_LIBFUZZER: Final = re.compile(
    r"#(?P<count>\d+)\s+(?P<event>[A-Za-z]+)\s+cov: (?P<coverage>\d+) .*corp: (?P<corpus>\d+)/"
)
_OURS: Final = re.compile(r"tried (\d+)")


class Progress:
    """How far a target's run is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = self._told = time.monotonic()
        self._found: float | None = None
        self._count = 0
        self._coverage = ""

    def read(self, line: str) -> bool:
        """Take a line of libFuzzer's; returns whether it was about progress."""
        ours = _OURS.fullmatch(line)
        theirs = _LIBFUZZER.match(line)
        if ours is not None:
            self.count(int(ours[1]))
        elif theirs is not None:
            self._coverage = f", coverage {theirs['coverage']} by {theirs['corpus']} inputs"
            if theirs["event"] == "NEW":
                self._found = time.monotonic()
            self.count(max(self._count, int(theirs["count"])))
        return ours is not None or theirs is not None

    def count(self, count: int) -> None:
        """So many inputs have been tried; says so from time to time."""
        self._count = count
        if time.monotonic() - self._told > EVERY:
            self.tell()

    def tell(self) -> None:
        """Print how it stands."""
        self._told = now = time.monotonic()
        spent = now - self._started
        rate = self._count / max(spent, 0.001)
        news = self._coverage or ", coverage unknown"
        if self._found is not None:
            news += f", last new find {now - self._found:.0f} s ago"
        print(f"{self._name:8}{spent:6.0f} s {self._count:12,} inputs {rate:8,.0f}/s{news}", flush=True)
