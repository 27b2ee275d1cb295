"""`make diskfaults`: lets single calls of a broker to its disk fail, one in each run, and checks FC-29."""

import contextlib
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from broker.cli.main import DISK_FAILED
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.properties import Properties
from protocol.publish import Publish
from tests.durability.client import LedgerError
from tests.durability.disk import Disk
from tests.durability.outside import Outside
from tests.durability.powercuts import check_image
from tests.durability.restart import Restart
from tests.durability.shim import Event, MissingError, build, environment, read
from tests.durability.small import small
from tests.durability.synced import Synced
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerError, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: 3_600}

KINDS: Final = ("eio", "enospc", "short", "full", "quota")

MESSAGES: Final = 6

QOS_2: Final = 2
"""In SUBACK: that is granted."""
QUOTA_EXCEEDED: Final = 0x97

PATIENCE: Final = 20.0
"""Seconds that a client waits for an answer, or for room."""


class Clients:
    """What clients do with the broker, one step after another."""

    def __init__(self, address: Address) -> None:
        self.error: BaseException | None = None
        """Why they could not continue."""
        self._address = address
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether they have finished, or cannot continue."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._play()
        except (OSError, AssertionError) as error:
            self.error = error

    def _play(self) -> None:
        with self._kept("kept") as subscriber, self._kept("publisher") as publisher:
            wait_until(lambda: subscriber.subscribe("d/#", qos=2).reason_codes == [QOS_2], "subscribed", PATIENCE)
            for number in range(MESSAGES):
                qos = 1 + number % 2
                _publish(publisher, f"d/{qos}", _payload(number, "message"), qos)
                _publish(publisher, f"r/{qos}", _payload(number, "retained message"), qos, retain=True)
                if number < MESSAGES // 2:
                    subscriber.receive_message()
            publisher.unsubscribe("nothing")
        with self._kept("kept") as again:
            again.disconnect()

    def _kept(self, client_id: str) -> WireClient:
        """A client with a kept session, which tries again while the disk is full: new ones are refused then."""
        accepted: list[WireClient] = []

        def is_accepted() -> bool:
            client = WireClient(self._address, 5, timeout=PATIENCE)
            try:
                reason_code = client.connect(client_id, clean_start=False, properties=KEPT).reason_code
            except BaseException:
                client.close()
                raise
            if reason_code == QUOTA_EXCEEDED:
                client.close()
                return False
            accepted.append(client)
            return True

        wait_until(is_accepted, f"{client_id} is accepted", PATIENCE)
        return accepted[0]


def _publish(client: WireClient, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
    """Publish it, again while the disk is full."""
    wait_until(lambda: client.publish(topic, payload, qos, retain=retain) < QUOTA_EXCEEDED, "it is taken", PATIENCE)


def _payload(number: int, what: str) -> bytes:
    """As `Synced` wants it."""
    return 2 * (f"{number:010} of {what}s ".encode() + bytes(750))


@dataclass
class Ending:
    """How one run has ended."""

    call: str
    """The call that failed, and its file; empty: there was no call of this number."""
    what: str
    """A text that begins with "WRONG" is a failure."""


class Faults:
    """Runs a broker repeatedly, each time with another fault."""

    def __init__(self, folder: Path) -> None:
        """Raises MissingError."""
        self._folder = folder
        self._library = build(folder)
        self._runs = 0

    def calls(self) -> int:
        """How many calls there are in a run without a fault."""
        self.run("none", 0)
        return len((self._folder / f"{self._runs}" / "count").read_text().splitlines())

    def run(self, kind: str, number: int) -> Ending:
        """Let the call of this number fail."""
        self._runs += 1
        folder = self._folder / f"{self._runs}"
        (folder / "disk").mkdir(parents=True)
        what = self._play(folder, f"{kind}:{number}")
        events = list(read(folder / "record"))
        failed = next((f"{event.data.decode()} {event.name}" for event in events if event.kind == "!"), "")
        if not what.startswith("WRONG"):
            what = _check_silence(kind, failed, what) or _check_record(kind, events) or what
        if not what.startswith("WRONG"):
            what = _check_restart(folder / "disk", events) or what
        return Ending(failed, what)

    def _play(self, folder: Path, fault: str) -> str:
        room = folder / "room"
        try:
            broker = start_sluice(
                folder,
                prepare=small(60_000, 4_000),
                sections={"persistence": {"directory": str(folder / "disk" / "journal")}},
                env=environment(
                    self._library,
                    folder / "disk",
                    log=str(folder / "record"),
                    fault=fault,
                    room=str(room),
                    count=str(folder / "count"),
                ),
            )
        except BrokerError as error:
            return _not_started(str(error), folder / "disk")
        clients = Clients(broker.address())
        clients.start()
        try:
            if fault.startswith(("full", "quota")):
                what = _while_full(broker, clients, room)
            else:
                what = ""
                wait_until(lambda: clients.done, "the clients have done what they can", 30)
        except (OSError, AssertionError) as error:
            os.kill(broker.pid, signal.SIGKILL)
            broker.ask_to_end(signal.SIGWINCH)
            broker.stop()
            return f"WRONG: {type(error).__name__}: {error}\n{broker.stderr}"
        return _ended(broker, clients, what, room)


def _not_started(said: str, directory: Path) -> str:
    """The start has to name the file, and to end with status 1."""
    told = any(line.startswith("sluice: ") and str(directory) in line for line in said.splitlines())
    is_clear = told and said.startswith("ended with 1 ") and "Traceback" not in said
    return "refused to start" if is_clear else f"WRONG: {said}"


def _while_full(broker: BrokerProcess, clients: Clients, room: Path) -> str:
    """While the disk is full, publishers are refused and subscribers served; when there is room, all are served."""
    noticed = threading.Event()
    with connected(broker.address(), 5, properties={}) as probe:

        def refuses_or_done() -> bool:
            probe.send(Publish(b"nobody", b"", 1, packet_id=1))
            if probe.expect(Puback).reason_code == QUOTA_EXCEEDED:
                noticed.set()
            return noticed.is_set() or clients.done

        wait_until(refuses_or_done, "a PUBLISH is refused, or all is done", 20)
        if not noticed.is_set():
            return "room was not needed any more"
        with connected(broker.address(), 4) as old:
            old.send(Publish(b"nobody", b"", 1, packet_id=1))
            assert old.until_close() == [], "a 3.1.1 publisher is not refused"
        with connected(broker.address(), 5) as other:
            other.subscribe("other")
            probe.publish("other", b"goes on")
            assert other.receive_message().payload == b"goes on"
        room.touch()
        wait_until(lambda: clients.done, "they go on when there is room", 20)
    assert clients.error is None, clients.error
    return "full, then went on by itself"


def _ended(broker: BrokerProcess, clients: Clients, what: str, room: Path) -> str:
    if clients.error is None:
        broker.ask_to_end()
        room.touch()  # it waits a minute for that
    else:
        broker.ask_to_end(signal.SIGWINCH)  # which does nothing: it has to end by itself
    status = broker.stop()
    said = broker.stderr
    if broker.trouble():
        return f"WRONG: {said}"
    if clients.error is not None and ("journal_failed" not in said or status != DISK_FAILED):
        return f"WRONG: status {status}, {clients.error!r}\n{said}"
    if status == 0:
        return what or "went on"
    told = "what is on disk is not known; start the broker again" in said
    return f"ended with status {status}" if status == DISK_FAILED and told else f"WRONG: status {status}\n{said}"


def _check_silence(kind: str, failed: str, what: str) -> str:
    """A failed write or sync must be reported."""
    is_harmful = failed.startswith(("write", "sync journal/", "truncate", "mkdir", "rename")) and kind == "eio"
    return f"WRONG: nobody has noticed that {failed} has failed" if is_harmful and what == "went on" else ""


def _check_record(kind: str, events: list[Event]) -> str:
    """FC-29: after a failed write of a segment only what was on disk before may still be acknowledged."""
    outside, synced = Outside(), Synced()
    has_failed = False
    for event in events:
        outside.follow(event)
        has_failed |= event.kind == "!" and event.data in {b"write", b"sync"} and "segment-" in event.name
        early = [payload[:30] for payload in outside.acknowledged if payload not in synced]
        if has_failed and early and kind == "eio":
            return f"WRONG: {early[0]!r} is acknowledged after a segment has failed"
        if not has_failed:
            synced.follow(event, outside)
    return ""


def _check_restart(directory: Path, events: list[Event]) -> str:
    """A start without a fault, at once and after a power cut, has all that was acknowledged."""
    disk, outside = Disk(), Outside()
    for event in events:
        disk.follow(event)
        outside.follow(event)
    for seed in range(2):
        if why := check_image(disk, outside, seed, synced_only=seed == 0):
            return f"WRONG: after a power cut: {why}"
    try:
        Restart(directory / "journal", outside, random.Random(0)).check()
    except (LedgerError, OSError) as error:
        return f"WRONG: {error}"
    return ""


def sweep(faults: Faults, kind: str, numbers: list[int], say: Callable[[str], None]) -> tuple[Counter[str], list[str]]:
    """Let these calls fail, each in a run of its own; returns the outcomes and the failures."""
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    for number in numbers:
        ending = faults.run(kind, number)
        if ending.what.startswith("WRONG"):
            wrong.append(f"{kind}, call {number} ({ending.call}): {ending.what}")
            say(wrong[-1])
        ends[ending.what.partition(":")[0] if ending.call else "there was no such call, or it needs no room"] += 1
    return ends, wrong


def main(
    kinds: Annotated[str, typer.Option(help="Of eio, enospc, short, full, quota.")] = ",".join(KINDS),
    every: Annotated[int, typer.Option(min=1, help="Only every so many-th call.")] = 1,
) -> None:
    """Let every call of a broker to its disk fail, one in each run."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="sluice-faults-") as name:
        try:
            faults = Faults(Path(name))
        except MissingError as error:
            raise SystemExit(f"the disk cannot be made to fail: {error}") from None
        count = faults.calls()
        for kind in kinds.split(","):
            began = time.monotonic()
            ends, wrong = sweep(faults, kind, list(range(1, count + 10, every)), print)
            print(f"{kind}: {ends.total()} runs, {time.monotonic() - began:.0f} s")
            for end, times in ends.most_common():
                print(f"  {times:5} {end}")
            bad += len(wrong)
    if bad:
        raise SystemExit(1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        typer.run(main)
