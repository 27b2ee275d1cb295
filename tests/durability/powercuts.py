"""`make powercuts`: starts a broker on what power cuts of a recorded run leave, and checks what was acknowledged."""

import asyncio
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from tests.durability.client import LedgerError
from tests.durability.disk import Disk
from tests.durability.outside import Outside
from tests.durability.record import Recorder, record
from tests.durability.restart import PATIENCE, Restart
from tests.durability.shim import MissingError
from tests.durability.synced import MARK, Synced

MEMORY: Final = Path("/dev/shm")
"""The folder of the images, if it exists: it is in memory, and syncs at once."""


@dataclass
class Result:
    """The result of a check of one record."""

    images: int = 0
    points: int = 0
    """Events of the record at which the power was cut."""
    acknowledged: int = 0
    """Messages that were acknowledged."""
    lost: list[str] = field(default_factory=list)


def cut_points(recorder: Recorder) -> list[int]:
    """The numbers of the events after which a cut may leave something new, on the disk or known to clients."""
    disk, outside = recorder.before(), recorder.outside()
    return [
        number
        for number, event in enumerate(recorder.events(disk))
        if disk.follow(event) or (outside.follow(event) and outside.told)
    ]


def check_images(recorder: Recorder, count: int, rng: random.Random, patience: float = PATIENCE) -> Result:
    """Make so many images, in the order of the record, and check each."""
    points = cut_points(recorder)
    chosen = Counter(rng.choices(points, k=max(count - len(points), 0)))
    chosen.update(points if count >= len(points) else rng.sample(points, count))
    result = Result(points=len(chosen))
    disk, outside = recorder.before(), recorder.outside()
    began = time.monotonic()
    for number, event in enumerate(recorder.events(disk)):
        disk.follow(event)
        outside.follow(event)
        for attempt in range(chosen[number]):
            seed = rng.randrange(2**32)
            if why := check_image(disk, outside, seed, patience, synced_only=attempt == 0):
                result.lost.append(f"event {number} ({event.kind} {event.name}), image {seed}: {why}")
            result.images += 1
            if result.images % 500 == 0:
                print(f"{result.images:7,} images, {time.monotonic() - began:.0f} s, {len(result.lost)} wrong")
    result.acknowledged = sum(message.acknowledged for message in outside.messages.values())
    return result


def check_image(disk: Disk, outside: Outside, seed: int, patience: float = PATIENCE, *, synced_only: bool) -> str:
    """Cut the power and start again; returns what is wrong, empty if nothing is."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="sluice-image-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        disk.cut(folder, rng, synced_only=synced_only)
        Restart(folder / "journal", outside, rng, patience).check()
    except (LedgerError, OSError) as error:
        return str(error)
    finally:
        shutil.rmtree(folder)
    return ""


def early(recorder: Recorder) -> tuple[int, list[str]]:
    """How many PUBACKs and PUBRECs have been compared with the disk, and those that left before the sync.

    A message is on disk when the write that holds its payload has been synced.
    """
    told: list[tuple[str, bytes, bool]] = []
    disk, outside, synced = recorder.before(), recorder.outside(), Synced()
    for number, event in enumerate(recorder.events(disk)):
        disk.follow(event)
        outside.follow(event)
        told += [(f"event {number}", each, each in synced) for each in outside.acknowledged if MARK in each]
        synced.follow(event, outside, disk)
    return len(told), [f"{where}: {payload!r}" for where, payload, was_synced in told if not was_synced]


def leave_one(recorder: Recorder, directory: Path, rng: random.Random) -> int:
    """Make the files that a power cut leaves, for the next record; returns after which event the cut was."""
    points = cut_points(recorder)
    chosen = rng.choice(points[len(points) // 2 :])
    disk = recorder.before()
    for number, event in enumerate(recorder.events(disk)):
        disk.follow(event)
        if number == chosen:
            disk.cut(directory, rng)
            break
    return chosen


def main(
    images: Annotated[int, typer.Option(min=1, help="How many power cuts.")] = 5_000,
    seconds: Annotated[float, typer.Option(help="How long the broker is recorded, in each generation.")] = 0.5,
    ends: Annotated[int, typer.Option(min=0, help="How often it is killed or stopped meanwhile.")] = 1,
    generations: Annotated[int, typer.Option(min=1, help="Records; each goes on with what a cut has left.")] = 5,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 1,
) -> None:
    """Record a broker under load, cut the power anywhere, and check that nothing acknowledged is lost."""
    rng = random.Random(seed)
    wrong = total = 0
    with tempfile.TemporaryDirectory(prefix="sluice-powercuts-") as name:
        before: Path | None = None
        earlier: list[tuple[Recorder, int]] = []
        for generation in range(generations):
            folder = Path(name) / str(generation)
            folder.mkdir()
            try:
                recorder = Recorder(folder, before)
            except MissingError as error:
                raise SystemExit(f"power cuts cannot be simulated: {error}") from None
            recorder.earlier = list(earlier)
            asyncio.run(record(recorder, seconds, ends, rng, generation))
            compared, too_early = early(recorder)
            print(f"{compared} acknowledgements compared with the syncs, {len(too_early)} too early {too_early[:5]}")
            result = check_images(recorder, images // generations, rng)
            for each in result.lost[:20]:
                print(each)
            print(
                f"{result.images} images of {result.points} moments, {result.acknowledged} messages acknowledged, "
                f"{len(result.lost)} images wrong"
            )
            wrong += len(result.lost) + len(too_early)
            total += result.images
            before = folder / "left"
            before.mkdir()
            earlier.append((recorder, leave_one(recorder, before, rng)))
    print(f"{total} images, {wrong} wrong")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)
