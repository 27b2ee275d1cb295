"""A run that finds a failure stores its smallest input where the next run and the ordinary tests try it again."""

import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fuzz import blind, run, target, watch
from tests.fuzz.codec import Codec
from tests.fuzz.progress import Progress
from tests.fuzz.target import Native, read_seed


class Picky(Codec):
    """Does not stand the byte 0x55."""

    def check(self, data: bytes) -> None:
        assert 0x55 not in data[2:], "there it is"

    def trace(self, data: bytes) -> Iterator[str]:
        self.check(data)
        yield "nothing"

    def mutate(self, source: random.Random, data: bytes, native: Native) -> bytes:
        return data + source.randbytes(3)


class Endless(Picky):
    """Never comes to an end."""

    def check(self, data: bytes) -> None:
        with suppress(Exception):
            while True:
                pass


class Leaking(Picky):
    """Keeps something of each input."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []

    def check(self, data: bytes) -> None:
        self._kept.append(b"x" * 100_000)


def test_a_find_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has the smallest failing input, the failure, and the command that repeats it."""
    (tmp_path / "codec").mkdir()
    monkeypatch.setattr(target, "CORPUS", tmp_path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "guided", lambda: False)
    path = run.run(Picky(), 60, 1)
    assert path is not None
    assert read_seed(Picky(), path)[2:] == b"\x55"
    assert path.read_text().startswith("# AssertionError: there it is\n")
    assert f'--replay codec/{path.name}"' in capsys.readouterr().out


def test_an_input_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that takes too long is a failure too, also if it would never end."""
    monkeypatch.setattr(watch, "SLOW", 0.1)
    with pytest.raises(blind.FailureError) as caught:
        blind.fuzz(Endless(), 60, 7)
    assert isinstance(caught.value.__cause__, watch.HangError)
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0


def test_inputs_that_leave_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that grows from input to input is a failure of the run."""
    for name, value in {"FIRST": 10, "EVERY": 10, "GROWTH": 2**24}.items():
        monkeypatch.setattr(watch, name, value)
    with pytest.raises(watch.GrowthError, match="16 MiB more after"):
        blind.fuzz(Leaking(), 60, 7)


def test_a_seed_repeats_a_run() -> None:
    """The same seed finds the same input."""
    found = []
    for _ in range(2):
        with pytest.raises(blind.FailureError) as caught:
            blind.fuzz(Picky(), 60, 7)
        found.append(caught.value.data)
    assert found[0] == found[1]


def test_progress_of_libfuzzer(capsys: pytest.CaptureFixture[str]) -> None:
    """A progress line of libFuzzer is shown in short; its other output is passed on."""
    progress = Progress("codec")
    assert progress.read("#29\tNEW    cov: 77 ft: 80 corp: 5/21b lim: 4 exec/s: 0 rss: 44Mb L: 9/9 MS: 1 Custom-")
    assert progress.read("tried 12000")
    assert not progress.read("INFO: Seed: 1")
    progress.tell()
    line = capsys.readouterr().out
    assert "12,000 inputs" in line
    assert "44 MiB, coverage 77 by 5 inputs, last new find 0 s ago" in line
