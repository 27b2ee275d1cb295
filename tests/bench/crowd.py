"""Many quiet publishers and a loud one, and a receiver that takes half of what they send (FC-33).

Each quiet client publishes at the same rate, QoS 1, and the loud one at so many times that. The receiver, a subscriber
or a group of four, takes a part of all that (`consumer_max_rate`). Shown are, beside the same without the loud one: how
long the messages of the quiet ones take, how many that were acknowledged are lost, and Jain's index of what arrives of
each publisher over its max-min fair share.
"""

import heapq
import selectors
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from protocol.publish import Publish, encode_publish
from tests.bench import machine, program
from tests.bench.flow_clients import FlowClient
from tests.bench.grids import Grid, rounded
from tests.bench.run import show_grids
from tests.fairness.books import fair_shares, jains
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

STAMP: Final = struct.Struct(">IId")
"""A payload: the publisher, the number of its message, and when that was due."""
PUBACK: Final = 4
"""Bytes of a PUBACK of MQTT 3.1.1."""
MEMBERS: Final = 4
LOUD: Final = 0
"""The number of the loud publisher."""
AFTER: Final = 15.0
"""Seconds within which what is under way has to arrive."""


@dataclass(frozen=True)
class Scenario:
    """Rates are messages a second."""

    quiet: int
    rate: float
    loud: float
    taken: float
    receiver: str
    seconds: float
    settings: Mapping[str, object]


@dataclass
class Outcome:
    """What has happened to the messages."""

    sent: Counter[int] = field(default_factory=Counter)
    acknowledged: Counter[int] = field(default_factory=Counter)
    arrived: Counter[int] = field(default_factory=Counter)
    within: Counter[int] = field(default_factory=Counter)
    """What has arrived while the publishers sent."""
    latencies: list[float] = field(default_factory=list)
    """Seconds, of the messages of the quiet ones."""

    @property
    def lost(self) -> int:
        """Acknowledged messages of the quiet ones that have not arrived."""
        return sum(self.acknowledged[number] - self.arrived[number] for number in self.acknowledged if number != LOUD)

    def percentile(self, share: float) -> float:
        """Of the latencies, in milliseconds."""
        found = sorted(self.latencies)
        return 1000 * found[min(int(share * len(found)), len(found) - 1)] if found else 0.0

    def jain(self, numbers: list[int]) -> float:
        """Jain's index of these publishers, of what has arrived while all of them sent."""
        shares = fair_shares([self.sent[number] for number in numbers], sum(self.within[n] for n in numbers))
        return jains([self.within[n] / share for n, share in zip(numbers, shares, strict=True) if share])


class Publisher:
    """A client of MQTT 3.1.1 that publishes when it is due, and late if the broker does not read."""

    def __init__(self, address: Address, number: int, rate: float, outcome: Outcome) -> None:
        self.number = number
        self.every = 1 / rate
        self._outcome = outcome
        self._wire = WireClient(address, 4)
        self._wire.connect(client_id=f"p{number}")
        self.socket = self._wire.socket
        self.socket.setblocking(False)
        self._topic = f"crowd/{number}".encode()
        self._unsent = bytearray()
        self._received = 0

    def publish(self, due: float) -> bool:
        """Publish the message that is due; False if the broker does not read."""
        if self._unsent and not self._flush():
            return False
        sent = self._outcome.sent
        payload = STAMP.pack(self.number, sent[self.number], due)
        sent[self.number] += 1
        packet_id = sent[self.number] % 65_535 + 1
        self._unsent += encode_publish(self._topic, payload, 1, False, False, packet_id, None, 4)
        self._flush()
        return True

    def _flush(self) -> bool:
        try:
            del self._unsent[: self.socket.send(self._unsent)]
        except BlockingIOError:
            pass
        return not self._unsent

    def read(self, now: float) -> None:
        """Count what is acknowledged."""
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionError(f"publisher {self.number} was disconnected")
        self._received += len(data)
        self._outcome.acknowledged[self.number] = self._received // PUBACK

    def close(self) -> None:
        """Be gone."""
        self._wire.close()


class Receiver(FlowClient):
    """Acknowledges what it gets at once."""

    def __init__(self, address: Address, topic_filter: str, outcome: Outcome) -> None:
        super().__init__(address)
        self.wire.subscribe(topic_filter, qos=1)
        self._outcome = outcome
        self.start()

    def read_all(self, now: float, sending: bool) -> None:
        """Note what has arrived."""
        answers = []
        for packet in self.read():
            if not isinstance(packet, Publish):
                raise ConnectionError(f"the receiver got {packet!r}")
            number, _, due = STAMP.unpack(packet.payload)
            self._outcome.arrived[number] += 1
            self._outcome.within[number] += sending
            if number != LOUD:
                self._outcome.latencies.append(now - due)
            answers.append(b"\x40\x02" + int(packet.packet_id).to_bytes(2, "big"))
        self.write(b"".join(answers))


def play(broker: BrokerProcess, scenario: Scenario, loud: bool) -> Outcome:
    """Publish for so many seconds; wait until what is under way has arrived."""
    outcome = Outcome()
    group = scenario.receiver == "group"
    topic_filter = "$share/g/crowd/#" if group else "crowd/#"
    receivers = [Receiver(broker.address(), topic_filter, outcome) for _ in range(MEMBERS if group else 1)]
    rates = [scenario.loud] * loud + [scenario.rate] * scenario.quiet
    first = LOUD if loud else LOUD + 1
    publishers = [Publisher(broker.address(), first + place, rate, outcome) for place, rate in enumerate(rates)]
    with selectors.DefaultSelector() as selector:
        for receiver in receivers:
            selector.register(receiver.socket, selectors.EVENT_READ, receiver)
        for one in publishers:
            selector.register(one.socket, selectors.EVENT_READ, one)
        begin = time.perf_counter()
        spread = [begin + one.every * place / len(publishers) for place, one in enumerate(publishers)]
        calendar = [(due, one.number, one) for due, one in zip(spread, publishers, strict=True)]
        heapq.heapify(calendar)
        end = begin + scenario.seconds
        while (now := time.perf_counter()) < end + AFTER:
            sending = now < end
            if not sending and outcome.arrived == outcome.acknowledged == outcome.sent:
                break
            while sending and calendar[0][0] <= now:
                due, number, one = calendar[0]
                next_due = due + one.every if one.publish(due) else now + 0.001
                heapq.heapreplace(calendar, (next_due, number, one))
            for key, _ in selector.select(max(min(calendar[0][0] - now, 0.001), 0) if sending else 0.01):
                client = key.data
                if isinstance(client, Receiver):
                    client.read_all(time.perf_counter(), sending)
                else:
                    client.read(now)
    for one in publishers:
        one.close()
    for receiver in receivers:
        receiver.wire.close()
    return outcome


def measure(sluice: str, scenario: Scenario, loud: bool) -> Outcome:
    """Start a broker for one run."""
    rate = max(round(scenario.taken / (MEMBERS if scenario.receiver == "group" else 1)), 1)
    sections = {
        "session": {"consumer_max_rate": rate, "max_inflight": 100, **scenario.settings},
        "metrics": {"directory": None},
    }
    with tempfile.TemporaryDirectory(prefix="sluice-crowd-") as folder:
        broker = start_sluice(Path(folder), TCP_ONLY, sections, command=[sluice, "-I", "-m", "broker"])
        try:
            return play(broker, scenario, loud)
        finally:
            broker.stop()


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    quiet: Annotated[int, typer.Option(min=1, help="How many quiet publishers.")] = 1000,
    rate: Annotated[float, typer.Option(min=0.01, help="Messages a second of each.")] = 1.0,
    loud: Annotated[float, typer.Option(min=1, help="How many times as much the loud one publishes.")] = 1000,
    taken: Annotated[float, typer.Option(min=0.01, help="Which part of all that the receiver takes.")] = 0.5,
    seconds: Annotated[float, typer.Option(min=1, help="How long they publish.")] = 20.0,
    receiver: Annotated[Literal["subscriber", "group"], typer.Option(help="Who gets the messages.")] = "subscriber",
    fairness: Annotated[str, typer.Option(help="Values of mqueue_fairness, separated by commas.")] = "fifo,publisher",
    overflow: Annotated[str, typer.Option(help="mqueue_overflow.")] = "drop_oldest",
) -> None:
    """Measure how fair a queue is between many publishers."""
    columns = ("fairness", "", "sent", "p50, ms", "p99, ms", "p99 / alone", "lost", "Jain of all", "of the quiet")
    offered = (quiet + loud) * rate
    title = f"{quiet:,} publishers of {rate:g}/s, one of {loud * rate:g}/s; a {receiver} takes {taken * offered:g}/s"
    grid = Grid(f"{title}; {overflow}", columns)
    with Console(stderr=True).status("") as status:
        for kind in fairness.split(","):
            settings = {"mqueue_fairness": kind, "mqueue_overflow": overflow}
            scenario = Scenario(quiet, rate, loud * rate, taken * offered, receiver, seconds, settings)
            alone = 0.0
            for beside in (False, True):
                status.update(f"{kind}, {'with' if beside else 'without'} the loud one")
                outcome = measure(sluice, scenario, beside)
                p99 = outcome.percentile(0.99)
                alone = alone or p99
                everybody = [*range(LOUD if beside else LOUD + 1, quiet + 1)]
                cells = ["and the loud one" if beside else "alone", f"{outcome.sent.total():,}"]
                cells += [rounded(outcome.percentile(0.5)), rounded(p99), f"{p99 / alone:.2f}", f"{outcome.lost:,}"]
                grid.add(kind, *cells, *(f"{outcome.jain(which):.4f}" for which in (everybody, [*range(1, quiet + 1)])))
    print(" · ".join(machine.description().values()))
    show_grids([grid])


if __name__ == "__main__":
    program.run(main)
