"""`make damage`: a journal with one byte changed, or cut, anywhere, is refused, or nothing of it is missing."""

import asyncio
import os
import random
import shutil
import signal
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from broker.storage.database import NAME, StorageError
from broker.storage.storage import Storage
from protocol import properties as props
from protocol.properties import Properties
from tests.durability.powercuts import MEMORY
from tests.durability.small import small
from tests.support.brokers import start_sluice
from tests.support.wire import WireClient, connected

KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: 3_600}

LOG: Final = f"{NAME}-wal"

CLEAR: Final = ("damaged; `sluice store check` lists", "a database of another program", "this broker reads version")
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


def make_journal(folder: Path, how: signal.Signals, checkpoint: int = 30_000) -> Path:
    """A small journal of a broker that was ended like this: with SIGKILL, part of it is in the write-ahead log.

    `checkpoint`: bytes of the log after which it is copied.
    """
    folder.mkdir()
    directory = folder / "journal"
    broker = start_sluice(folder, prepare=small(checkpoint), sections={"persistence": {"directory": str(directory)}})
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


def written(path: Path) -> int:
    """Bytes of a file before the zeros at its end: the log has its length from the start."""
    return len(path.read_bytes().rstrip(b"\0"))


def live(log: Path) -> int:
    """Bytes of the write-ahead log that a start reads: those after them are older than the log's last beginning."""
    content = log.read_bytes()
    (page,) = struct.unpack_from(">I", content, 8)
    salt, end = content[16:24], 32
    while content[end + 8 : end + 16] == salt:
        end += 24 + page
    return end


def cases(directory: Path) -> Iterator[Case]:
    """Every byte that was written changed in one bit, and in all; every length."""
    for file in (NAME, LOG):
        if (directory / file).exists():
            for at in range(written(directory / file)):
                yield Case(file, at, 1 << at % 8)
                yield Case(file, at, 0xFF)
                yield Case(file, at, 0)


def frames(directory: Path) -> list[int]:
    """The frames that a broker would start with: their checksums hold. Raises StorageError."""
    storage = Storage(directory, 0.0)
    try:
        return list(storage.read().frames)
    finally:
        asyncio.run(storage.close())


def judge(case: Case, directory: Path, whole: list[int]) -> str:
    """How a start on the damaged journal ends; a text that begins with "WRONG" is a failure.

    JOURNAL.md says what cannot be noticed: damage to the last commit in the write-ahead log, and that this log is
    shorter than it was. Both look like what a power cut leaves.
    """
    try:
        found = frames(directory)
    except StorageError as error:
        told = str(error)
        is_clear = told.startswith(f"{directory / NAME}: ") and any(each in told for each in CLEAR)
        return "refused" if is_clear else f"WRONG: {error}"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    if found == whole:
        return "whole"
    if case.file == LOG and found == whole[: len(found)]:
        if not case.mask:
            return "without its end: the write-ahead log is cut"
        if len(found) == len(whole) - 1:
            return "without its last commit, which is damaged"
    return f"WRONG: frames {whole} have become {found}"


def run(directory: Path, chosen: Iterable[Case]) -> tuple[Counter[str], list[str]]:
    """Try these; returns how often each outcome occurred, and the failures."""
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
            end = judge(case, copy, whole)
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
            ends, wrong = run(directory, (case for case in cases(directory) if rng.random() < share))
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
