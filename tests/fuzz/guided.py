"""One target under atheris, which looks for inputs that reach new code: `python -m tests.fuzz.guided TARGET FLAGS`.

A process of its own, started by `tests.fuzz`: libFuzzer, which is inside atheris, ends the process that it runs in.
The flags are libFuzzer's.
"""

import gc
import random
import sys
import time

import atheris

REPORT = 2.0
"""Seconds between two lines that say how many inputs have been tried."""


class Counted:
    """The target as libFuzzer calls it."""

    def __init__(self, name: str) -> None:
        with atheris.instrument_imports(include=["protocol", "session", "broker", "config", "websockets", "jwt"]):
            from tests.fuzz.quiet import be_quiet
            from tests.fuzz.targets import TARGETS
            from tests.fuzz.watch import limited
        be_quiet()
        self._target = TARGETS[name]
        self._limited = limited
        self._count = 0
        self._reported = time.monotonic()

    def check(self, data: bytes) -> None:
        """Try one input."""
        self._count += 1
        now = time.monotonic()
        if now - self._reported > REPORT:
            self._reported = now
            print(f"tried {self._count}", file=sys.stderr)
        with self._limited():
            self._target.check(data)

    def mutate(self, data: bytes, most: int, seed: int) -> bytes:
        """Change an input, now and then in libFuzzer's own ways."""
        changed = self._target.mutate(random.Random(seed), data, lambda part: _native(part, most))
        return changed[:most]

    def cross(self, one: bytes, other: bytes, most: int, seed: int) -> bytes:
        """Make an input of two."""
        return self._target.cross(random.Random(seed), one, other)[:most]


def _native(data: bytes, most: int) -> bytes:
    changed: bytes = atheris.Mutate(data, min(most, 2 * len(data) + 16))
    return changed


def main() -> None:
    """Fuzz until libFuzzer has had enough."""
    counted = Counted(sys.argv.pop(1))
    gc.collect()
    gc.freeze()  # what is there for good need not be searched after each input
    atheris.Setup(sys.argv, counted.check, custom_mutator=counted.mutate, custom_crossover=counted.cross)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
