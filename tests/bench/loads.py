"""The loads of the comparison.

Windows are such that no broker has to drop: what is under way at once stays below the limits that every broker
is started with.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """What is counted: the keys of blast's results that a row is about."""

    cpu: str
    rate: str
    latency: str
    counted: str


DELIVERIES = Unit("cpu_us_per_delivery", "received_per_s", "latency", "counted_per_delivery")
CYCLES = Unit("cpu_us_per_cycle", "cycles_per_s", "cycle", "counted_per_cycle")
CONNECTIONS = Unit("cpu_us_per_connection", "received_per_s", "connect", "")


@dataclass(frozen=True)
class Load:
    """One row of the comparison: the generator's arguments, and the limit for Sluice."""

    name: str
    title: str
    arguments: tuple[str, ...]
    most: float | None
    """The highest ratio of Sluice's CPU time for each delivery to Mosquitto's; None: no limit."""

    @property
    def counts_connections(self) -> bool:
        """Whether it is about connections that stay, not messages."""
        return "--idle" in self.arguments

    @property
    def unit(self) -> Unit:
        """What its CPU time is divided by: deliveries unless it is about something else."""
        if self.counts_connections:
            return CONNECTIONS
        return CYCLES if self.arguments[-2:] == ("--cycle", "connect") else DELIVERIES

    @property
    def tls(self) -> bool:
        """Whether its clients come over TLS."""
        return "--tls" in self.arguments


def _load(name: str, title: str, options: str, most: float | None = None) -> Load:
    return Load(name, title, tuple(f"--mode {options}".split()), most)


_NONE = (None, None, None)


def _by_qos(
    name: str, title: str, options: str, most: tuple[float | None, ...], windows: tuple[int, ...]
) -> list[Load]:
    loads = []
    for qos, window in enumerate(windows):
        what = f"{title}, QoS {qos}, window {window}"
        loads.append(_load(f"{name}-q{qos}", what, f"{options} --qos {qos} --window {window}", most[qos]))
    return loads


SPARSE = "pair --publishers 500 --rate 10"
"""5,000 messages a second in all. With a tick a few arrive together; evenly spread, the broker wakes for each."""

MILLION = "topics --publishers 10 --subscribers 10 --topics 1000000 --setup-limit 120"
"""More topics than any broker's cache holds, drawn at random."""

FIVE = "pair --publishers 10 --version 5"
CYCLED = "--cyclers 50 --cycle"

LOADS = (
    *_by_qos("pairs", "10 pairs", "pair --publishers 10", (0.055, 0.063, 0.03), (200, 200, 200)),
    *_by_qos("fanout", "1 to 100", "fanout --subscribers 100", (0.05, 0.2, 0.2), (200, 20, 20)),
    *_by_qos("fanin", "100 to 1", "fanin --publishers 100", (0.2, 0.2, 0.2), (200, 20, 20)),
    _load("sparse-q0", "500 pairs, 10 a second each, QoS 0", f"{SPARSE} --tick 0.001", 0.9),
    _load("sparse-q1", "500 pairs, 10 a second each, QoS 1", f"{SPARSE} --tick 0.001 --qos 1", 0.9),
    _load("even-q0", "the same, evenly spread, QoS 0", SPARSE),
    _load("even-q1", "the same, evenly spread, QoS 1", f"{SPARSE} --qos 1"),
    _load("large-q0", "4 pairs, 16 KiB, QoS 0, window 20", "pair --publishers 4 --size 16384 --window 20", 0.35),
    _load("pingpong-q0", "50 pairs, QoS 0, window 1", "pair --publishers 50 --window 1", 1.0),
    _load("topics", "10 to a million topics, each of one of 10, QoS 0, window 200", MILLION, 0.3),
    _load("topics-q1", "the same, QoS 1", f"{MILLION} --qos 1"),
    _load("fanout-large", "1 to 100, 16 KiB, QoS 0, window 20", "fanout --subscribers 100 --size 16384 --window 20"),
    _load("wild-q0", "1 topic, 1,000 filters with wildcards, QoS 0, window 5", "wild --subscribers 1000 --window 5"),
    _load("mixed", "10 pairs, QoS 0, 1, 2 as 8 : 1 : 1, window 200", "pair --publishers 10 --mix 8:1:1"),
    _load("properties", "10 pairs, MQTT 5, four properties, QoS 0, window 200", f"{FIVE} --properties 1"),
    _load(
        "aliases",
        "10 pairs, MQTT 5, four properties, topic aliases, QoS 0, window 200",
        f"{FIVE} --properties 1 --aliases 1",
    ),
    _load("tls", "10 pairs over TLS, QoS 0, window 200", "pair --publishers 10 --tls 1"),
    _load(
        "subscribe",
        "10 pairs, 1,000 a second each, beside 2,000 subscribes and unsubscribes a second",
        f"pair --publishers 10 --rate 1000 --tick 0.001 --cycle-rate 2000 {CYCLED} subscribe",
    ),
    _load("reconnect", "connect and disconnect, 50 at a time", f"connect {CYCLED} connect"),
    _load(
        "retained",
        "10,000 retained messages, to each new subscription to #",
        "connect --retained 10000 --cyclers 1 --cycle retained",
    ),
    _load("wide-q0", "1 to 5,000, QoS 0, window 2", "fanout --subscribers 5000 --window 2"),
    _load("wide-q1", "1 to 5,000, QoS 1, window 2", "fanout --subscribers 5000 --window 2 --qos 1"),
    _load("idle", "10,000 idle connections, 64 opened at a time", "connect --idle 10000 --burst 64"),
    _load("storm", "10,000 connections at once", "connect --idle 10000 --burst 10000"),
)



def crossing(workers: int) -> tuple[Load, ...]:
    """Loads for a Sluice with workers: both ends of each pair at one cell, at two, and one to many at all cells."""
    if workers == 1:
        return ()
    cells = f"--cells {workers} --publisher-cell 1"
    windows = (200, 200, 200)
    pairs = "pair --publishers 10 --version 5"
    older = f"pair --publishers 10 {cells} --subscriber-cell 2"
    return (
        *_by_qos("same-cell", "10 pairs, MQTT 5, of one cell", f"{pairs} {cells} --subscriber-cell 1", _NONE, windows),
        *_by_qos("crossing", "10 pairs, MQTT 5, of two cells", f"{pairs} {cells} --subscriber-cell 2", _NONE, windows),
        _load("crossing-v3", "10 pairs, MQTT 3.1.1, of two cells, QoS 0, window 200", older),
        _load("thousand", "1 to 1,000 of all cells, QoS 0, window 20", "fanout --subscribers 1000 --window 20"),
    )


BY_NAME = {load.name: load for load in LOADS}
