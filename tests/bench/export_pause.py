"""Measures how long a metrics export holds the event loop: `python tests/bench/export_pause.py [--sessions 10000]`.

A callback runs at every turn of the loop, during exports and without them. By the clock, a turn takes what a client
would have to wait: for the slices that are collected on the loop, and for the writer's thread, which takes turns with
the loop for the interpreter. Other programs on the machine count too, so it is printed with and without exports; the
CPU time of the loop's thread is ours alone. Each session has something to tell in every column, which is the most that
an export can cost.
"""

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from pathlib import Path

from broker.broker import Broker
from broker.runtime.clock import monotonic_us
from broker.telemetry.exporter import SWITCH_INTERVAL, Exporter
from config.models import Config
from protocol.publish import Publish
from session.counters import Counters
from session.mailbox import Mailbox

try:
    import uvloop
except ImportError:
    run_loop = asyncio.run
else:
    run_loop = uvloop.run

LIMIT_MS = 3.0
"""The longest time for which an export may hold the loop with 10,000 sessions."""


def fill(counters: Counters, now: int) -> None:
    """Add a value to every histogram, and some drops."""
    for qos in range(3):
        publish = Publish(b"t", b"payload", qos)
        publish.received_at = now - 1000
        counters.received_bytes += 7
        counters.count_offered(qos)
        counters.count_sent(publish, now)
        counters.count_drop("queue_full", publish)
        Mailbox().sample(counters)
        if qos:
            counters.count_acknowledged(qos, now - 5000, now)


class Ticker:
    """Runs at every turn of the loop, and records the milliseconds between turns."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        """By the clock: the time that a client would wait."""
        self.cpu: list[float] = []
        """CPU time of the loop's own thread."""
        self._last = (0.0, 0.0)
        self._running = False

    def start(self) -> None:
        """Begin to record."""
        self._running = True
        self._last = (time.perf_counter(), time.thread_time())
        asyncio.get_running_loop().call_soon(self._tick)

    def stop(self) -> None:
        """Stop recording."""
        self._running = False

    def _tick(self) -> None:
        now = (time.perf_counter(), time.thread_time())
        self.wall.append(1000 * (now[0] - self._last[0]))
        self.cpu.append(1000 * (now[1] - self._last[1]))
        self._last = now
        if self._running:
            asyncio.get_running_loop().call_soon(self._tick)


async def measure(sessions: int, exports: int, directory: Path) -> tuple[Ticker, Ticker]:
    """Record while `exports` files are written, and for as long without exports."""
    config = Config.model_validate({"node_name": "bench", "metrics": {"directory": directory}})
    broker = Broker(config, monotonic_us())
    for number in range(sessions):
        broker.sessions.new(f"client-{number:06}", monotonic_us())
    exporter = Exporter(broker.sessions, broker.router.shared, config)
    busy, idle = Ticker(), Ticker()
    gc.freeze()  # as the server does
    sys.setswitchinterval(SWITCH_INTERVAL)  # as `Exporter.start` does
    for _ in range(exports):
        now = monotonic_us()
        for client in broker.clients.known():
            fill(client.session.outbound.sender.counters, now)
        busy.start()
        start = time.perf_counter()
        await exporter.export()
        seconds = time.perf_counter() - start
        busy.stop()
        await asyncio.sleep(0.01)  # what one measurement has left does not fall into the next
        idle.start()
        await asyncio.sleep(seconds)  # an idle loop is measured for as long
        idle.stop()
        await asyncio.sleep(0.01)  # what one measurement has left does not fall into the next
    assert exporter.writer.written == exports, "the export does not work"
    return busy, idle


def describe(name: str, values: list[float]) -> None:
    """Print the tail of a distribution."""
    late = sorted(values)
    p99, p999 = (late[int(len(late) * share)] for share in (0.99, 0.999))
    print(f"  {name:<34} {len(late):>7} ticks  p99 {p99:6.3f}  p99.9 {p999:6.3f}  longest {late[-1]:7.3f}")


def main() -> int:
    """Measure and print; the exit status says whether the limit holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--exports", type=int, default=10)
    options = parser.parse_args()
    how = "interpreted" if str(sys.modules["session.counters"].__file__).endswith(".py") else "compiled"
    print(f"{options.sessions} sessions, {options.exports} exports, {how}; milliseconds")
    with tempfile.TemporaryDirectory() as folder:
        busy, idle = run_loop(measure(options.sessions, options.exports, Path(folder)))
    describe("by the clock, while exporting", busy.wall)
    describe("by the clock, otherwise", idle.wall)
    describe("CPU of the loop, while exporting", busy.cpu)
    describe("CPU of the loop, otherwise", idle.cpu)
    held = max(busy.cpu)
    print(f"an export holds the loop for {held:.3f} ms at the most, limit {LIMIT_MS:g} ms")
    return 0 if held < LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
