"""The metrics of /metrics about bridges, each of which the configuration names: one series of each for each bridge."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.admin.rows import BridgeRow
from broker.bridge.status import CONNECTED, ENDED, IDLE

_AS_IT_SHOULD_BE: Final = (CONNECTED, IDLE, ENDED)

_GAUGES: Final[tuple[tuple[str, str, Callable[[BridgeRow], float]], ...]] = (
    ("sluice_bridge_connected", "Whether the bridge is connected.", lambda row: row.state == CONNECTED),
    (
        "sluice_bridge_down",
        "Whether it is not connected, although it should be.",
        lambda row: row.state not in _AS_IT_SHOULD_BE,
    ),
    ("sluice_bridge_queue_deliveries", "Deliveries that wait in the bridge's session.", lambda row: row.queue),
    ("sluice_bridge_queue_bytes", "Payload bytes that wait in its mqueue.", lambda row: row.queue_bytes),
    (
        "sluice_bridge_oldest_seconds",
        "For how long the first delivery has waited, at most since the broker has started; 0 = none waits.",
        lambda row: row.oldest_seconds,
    ),
)

_COUNTERS: Final[tuple[tuple[str, str, Callable[[BridgeRow], int]], ...]] = (
    ("sluice_bridge_connects", "Connections that the remote broker has accepted.", lambda row: row.connects),
    ("sluice_bridge_sent", "Deliveries sent to the remote broker for the first time.", lambda row: row.sent),
    ("sluice_bridge_acknowledged", "Deliveries completed by the remote broker.", lambda row: row.acknowledged),
    ("sluice_bridge_received", "PUBLISHes accepted from the remote broker.", lambda row: row.received),
    ("sluice_bridge_dropped", "Deliveries given up (FC-5).", lambda row: row.dropped),
)


def bridge_metrics(rows: Sequence[BridgeRow]) -> Iterator[Metric]:
    """All of them. Without bridges they have no series."""
    families: list[tuple[GaugeMetricFamily | CounterMetricFamily, Callable[[BridgeRow], float]]] = [
        *((GaugeMetricFamily(name, text, labels=("bridge",)), value) for name, text, value in _GAUGES),
        *((CounterMetricFamily(name, text, labels=("bridge",)), value) for name, text, value in _COUNTERS),
    ]
    for family, value in families:
        for row in rows:
            family.add_metric((row.bridge,), value(row))
        yield family
    refused = CounterMetricFamily(
        "sluice_bridge_refused",
        "Messages refused for good: by the remote broker (out), or on their way in.",
        labels=("bridge", "direction"),
    )
    for row in rows:
        refused.add_metric((row.bridge, "out"), row.refused_out)
        refused.add_metric((row.bridge, "in"), row.refused_in)
    yield refused
