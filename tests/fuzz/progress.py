"""What a run of the fuzzer tells while it goes on."""

import re
import time
from typing import Final

import psutil

EVERY: Final = 10.0
"""Seconds between two lines."""

_LIBFUZZER: Final = re.compile(
    r"#(?P<count>\d+)\s+(?P<event>[A-Za-z]+)\s+cov: (?P<coverage>\d+) .*corp: (?P<corpus>\d+)/"
    r".* rss: (?P<memory>\d+)Mb"
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
        self._memory = 0

    def read(self, line: str) -> bool:
        """Take a line of libFuzzer's; returns whether it was about progress."""
        ours = _OURS.fullmatch(line)
        theirs = _LIBFUZZER.match(line)
        if ours is not None:
            self.count(int(ours[1]))
        elif theirs is not None:
            self._coverage = f", coverage {theirs['coverage']} by {theirs['corpus']} inputs"
            self._memory = int(theirs["memory"])
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
        memory = self._memory or psutil.Process().memory_info().rss // 2**20
        print(f"{self._name:9}{spent:6.0f} s {self._count:12,} inputs {rate:8,.0f}/s, {memory} MiB{news}", flush=True)
