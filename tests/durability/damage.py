"""`make damage`: a journal with one byte changed, or cut, anywhere, is refused, or nothing of it is missing."""

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from broker.storage.errors import StorageError
from broker.storage.found import find
from broker.storage.storage import Storage
from protocol import properties as props
from protocol.properties import Properties
from tests.durability.powercuts import MEMORY
from tests.durability.small import small
from tests.support.brokers import start_sluice
from tests.support.wire import WireClient, connected

KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: 3_600}

CLEAR: Final = ("damaged; `sluice store check` lists", "it is no segment of a journal", "this broker reads version")
"""A refusal has one of these texts."""


@dataclass(frozen=True)
class Case:
    """One kind of damage, to one file."""

    file: str
    at: int
    mask: int
    """The bits to change at that byte; 0: the file is cut there."""

    def do(self, directory: Path) -> None:
        """Damage the journal."""
        path = directory / self.file
        content = bytearray(path.read_bytes())
        if self.mask:
            content[self.at] ^= self.mask
        else:
            del content[self.at :]
        path.write_bytes(content)


def make_journal(folder: Path, how: signal.Signals, segment: int = 6_000) -> Path:
    """A small journal of a broker that was ended like this, in some segments of so many bytes."""
    folder.mkdir()
    directory = folder / "journal"
    broker = start_sluice(folder, prepare=small(segment), sections={"persistence": {"directory": str(directory)}})
    with WireClient(broker.address(), 5) as client:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe("t", qos=2)
        client.disconnect()
    with connected(broker.address(), 5) as publisher:
        for number in range(6):
            size = 5_000 if number == 1 else 100
            publisher.publish("t", bytes((number,)) * size, 1 + number % 2, retain=number < 2)
    os.kill(broker.pid, how)
    broker.ask_to_end(signal.SIGWINCH)  # which does nothing
    broker.stop()
    return directory


def cases(directory: Path) -> Iterator[Case]:
    """Every byte that was written changed in one bit, and in all; every length."""
    for segment in find(directory).segments:
        for at in range(segment.end):
            yield Case(segment.path.name, at, 1 << at % 8)
            yield Case(segment.path.name, at, 0xFF)
            yield Case(segment.path.name, at, 0)


def frames(directory: Path) -> list[int]:
    """The frames that a broker would start with: their checksums hold. Raises StorageError."""
    storage = Storage(directory, 0.0)
    try:
        return list(storage.read().frames)
    finally:
        asyncio.run(storage.close())


def judge(directory: Path, whole: list[int], stopped: bool) -> str:
    """How a start on the damaged journal ends; a text that begins with "WRONG" is a failure.

    JOURNAL.md says what cannot be noticed: damage to the last commit of a broker that was killed. It looks like what a
    power cut leaves.
    """
    try:
        found = frames(directory)
    except StorageError as error:
        told = str(error)
        is_clear = told.startswith(f"{directory}") and any(each in told for each in CLEAR)
        return "refused" if is_clear else f"WRONG: {error}"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    if found == whole:
        return "whole"
    if not stopped and found == whole[:-1]:
        return "without its last commit, which is damaged"
    return f"WRONG: frames {whole} have become {found}"


def run(directory: Path, chosen: Iterable[Case], stopped: bool) -> tuple[Counter[str], list[str]]:
    """Try these; returns how often each outcome occurred, and the failures. `stopped`: its broker was not killed."""
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="sluice-damage-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        shutil.copytree(directory, folder / "whole")
        whole = frames(folder / "whole")
        for case in chosen:
            copy = folder / "journal"
            shutil.copytree(directory, copy)
            case.do(copy)
            end = judge(copy, whole, stopped)
            shutil.rmtree(copy)
            ends[end.partition(":")[0]] += 1
            if end.startswith("WRONG"):
                wrong.append(f"{case}: {end}")
    finally:
        shutil.rmtree(folder)
    return ends, wrong


def main(
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Of all cases, drawn at random.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 1,
) -> None:
    """Damage a journal at every byte, and start on it."""
    rng = random.Random(seed)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="sluice-damage-") as name:
        for how in (signal.SIGTERM, signal.SIGKILL):
            directory = make_journal(Path(name) / how.name, how)
            began = time.monotonic()
            chosen = (case for case in cases(directory) if rng.random() < share)
            ends, wrong = run(directory, chosen, how == signal.SIGTERM)
            print(f"ended by {how.name}: {ends.total()} cases, {time.monotonic() - began:.0f} s")
            for end, count in ends.most_common():
                print(f"  {count:7,} {end}")
            for each in wrong[:20]:
                print(each)
            bad += len(wrong)
    if bad:
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)
