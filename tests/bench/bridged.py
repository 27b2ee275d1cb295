"""What a bridge costs, and what a slow remote broker does to others: `python tests/bench/bridged.py --help`.

- A message through a bridge passes two brokers. The processor time of both together is compared with that of the same
  load on one broker, by turns in one run: of one pair at most 2.2 times at QoS 0 and 1.
- Nine subscribers, and beside them a bridge on the same topic whose remote broker takes a hundredth: the nine get at
  least 95 % of what they get without it.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.bench import machine, program
from tests.bench.generator import Result, drive
from tests.bench.grids import Grid, rounded
from tests.bench.run import show_grids
from tests.support.broker.bridged import Remote
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess

PAIRS = (1, 10)
WINDOW = 500
"""Messages of a publisher under way: enough for both brokers to have work at the same time."""
MOST = 2.2
FAST = 9
SHARE = 0.95
SLOWER = 100
UNLIMITED: dict[str, object] = {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity", "max_inflight": 1_000}


@dataclass
class Cost:
    """Microseconds of processor time for each delivery, round by round."""

    alone: list[float] = field(default_factory=list)
    bridged: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return median(self.bridged) / median(self.alone)


def start(python: str, folder: Path, bridges: list[dict[str, Any]], **sections: object) -> BrokerProcess:
    """Start a broker on the first core; it runs in a folder of its own."""
    folder.mkdir()
    own: dict[str, object] = {"session": UNLIMITED, "bridges": bridges} | sections
    with machine.pinned(machine.cores().broker):
        return start_sluice(folder, TCP_ONLY, own, command=(python, "-I", "-m", "broker"))


def bridge(address: str, version: str, **keys: object) -> dict[str, Any]:
    """What goes out to it is all that is published."""
    topics = [{"filter": "b/#", "direction": "out"}]
    return {"name": "far", "address": address, "proto_ver": version, "topics": topics} | keys


@contextmanager
def two_brokers(python: str, folder: Path, version: str) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """The one with the bridge, and the remote one."""
    with ExitStack() as stack:
        far = stack.enter_context(start(python, folder / "far", []))
        near = stack.enter_context(start(python, folder / "near", [bridge(f"127.0.0.1:{far.address().port}", version)]))
        near.wait_for_output(lambda lines: any("bridge_connected" in line for line in lines), "the bridge")
        yield near, far


def load(near: BrokerProcess, far: BrokerProcess, pairs: int, qos: int, version: str, seconds: float) -> Result:
    """Publishers at one, subscribers at the other; both are measured."""
    arguments = ["--mode", "pair", "--publishers", str(pairs), "--qos", str(qos), "--window", str(WINDOW)]
    arguments += ["--version", "5" if version == "5" else "4", "--seconds", str(seconds)]
    arguments += ["--publish-port", str(near.address().port)]
    if near is not far:
        arguments += ["--pid", str(near.pid)]  # beside that of `far`
    with machine.pinned(machine.cores().generator):
        return drive(far, arguments)


def cost(python: str, pairs: int, qos: int, version: str, rounds: int, seconds: float) -> Cost:
    """Measure by turns."""
    found = Cost()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        alone = stack.enter_context(start(python, folder / "alone", []))
        near, far = stack.enter_context(two_brokers(python, folder, version))
        for _ in range(rounds):
            found.alone.append(load(alone, alone, pairs, qos, version, seconds)["cpu_us_per_delivery"])
            found.bridged.append(load(near, far, pairs, qos, version, seconds)["cpu_us_per_delivery"])
    return found


def acknowledge_slowly(remote: Remote, rate: float, stopped: threading.Event) -> None:
    """Be a remote broker that takes so many messages a second."""
    with suppress(OSError, ConnectionError, AssertionError):
        connection = remote.accepted()
        while not stopped.is_set():
            packet = connection.receive()
            if isinstance(packet, Publish) and packet.qos:
                connection.send(Puback(packet.packet_id))
            time.sleep(1 / rate)


def beside_slow(python: str, rate: float, seconds: float, slow: bool) -> Result:
    """Nine subscribers, with or without a bridge to a slow remote broker beside them."""
    arguments = ["--mode", "fanout", "--publishers", "1", "--subscribers", str(FAST), "--qos", "1"]
    arguments += ["--subscription-qos", "0", "--rate", str(rate), "--awaited", "65535", "--seconds", str(seconds)]
    stopped = threading.Event()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name, Remote() as remote:
        bridges = [bridge(remote.address, "5")] if slow else []
        thread = threading.Thread(target=acknowledge_slowly, args=(remote, rate / SLOWER, stopped), daemon=True)
        thread.start()
        with start(python, Path(name) / "near", bridges, session={}) as near:
            if slow:
                near.wait_for_output(lambda lines: any("bridge_connected" in line for line in lines), "the bridge")
            with machine.pinned(machine.cores().generator):
                result = drive(near, [*arguments, "--warmup", "0"])
        stopped.set()
    return result


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each load, by turns.")] = 6,
    seconds: Annotated[float, typer.Option(min=0.5, help="How long a load is measured.")] = 2.0,
    rate: Annotated[float, typer.Option(min=100, help="Messages a second beside the slow remote broker.")] = 10_000,
    slow_seconds: Annotated[float, typer.Option(min=1, help="How long that is measured.")] = 30.0,
) -> None:
    """Measure what bridges cost. Exit status 1 if an assertion does not hold."""
    grid = Grid("Pairs through a bridge, CPU us a delivery, both brokers together", ("", "alone", "bridged", "ratio"))
    held: dict[str, bool] = {}
    with Console(stderr=True).status("") as status:
        for pairs, version, qos in product(PAIRS, ("3.1.1", "5"), range(3)):
            name = f"pairs: {pairs}, MQTT {version}, QoS {qos}"
            status.update(name)
            found = cost(sluice, pairs, qos, version, rounds, seconds)
            grid.add(name, rounded(median(found.alone)), rounded(median(found.bridged)), f"{found.ratio:.2f}")
            if qos < 2 and pairs == 1:
                held[f"{name}: at most {MOST:g} times"] = found.ratio <= MOST
        status.update("nine subscribers beside a slow remote broker")
        alone, beside = (beside_slow(sluice, rate, slow_seconds, slow) for slow in (False, True))
    share = sum(beside["received"]) / sum(alone["received"])
    slow_grid = Grid(
        f"Nine subscribers, {rate:g} messages a second", ("beside them", "deliveries", "of alone", "p99, ms")
    )
    for name, result in (("nothing", alone), (f"a bridge {SLOWER} times slower", beside)):
        part = sum(result["received"]) / sum(alone["received"])
        slow_grid.add(name, f"{sum(result['received']):,}", f"{part:.4f}", rounded(result["latency"]["p99_us"] / 1000))
    held[f"beside a slow bridge the nine get {SHARE:.0%}"] = share >= SHARE
    show_grids([grid, slow_grid])
    for claim, holds in held.items():
        print(f"{claim}: {'yes' if holds else 'NO'}")
    if not all(held.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
