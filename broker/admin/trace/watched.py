"""What the broker has decided about the deliveries of a session, and about what its client sends: from its counters."""

from typing import Final

from broker.admin.waiting import because, waits_for
from broker.clients import Client
from broker.connection.connection import Connection
from broker.runtime.read_gate import PACED, REASONS
from session.counters import Counters

GATED: Final = "gated"
DROPPED: Final = "dropped"

_GATED: Final = {
    "gated_congested": "the send path is congested",
    "gated_window_full": "the window is full",
    "gated_mailbox_busy": "the mailbox is busy",
    "gated_backlog": "others wait before it",
    "gated_rate": "consumer_max_rate is used up",
}
_OTHERS: Final = {
    "superseded_qos0": ("superseded", "of QoS 0: newer ones of their topics wait in their places (FC-37)"),
    "superseded_qos1": ("superseded", "of QoS 1: newer ones of their topics wait in their places (FC-37)"),
    "superseded_qos2": ("superseded", "of QoS 2: newer ones of their topics wait in their places (FC-37)"),
    "resent_publish": ("resent", "PUBLISH"),
    "resent_pubrel": ("resent", "PUBREL"),
    "slow_consumer": ("slow", "slow consumer (FC-14)"),
    "stalled_window": ("slow", "stalled window (FC-14)"),
    "publish_refused": ("refused", "PUBLISH"),
    "publish_parked": ("parked", "PUBLISH: its address is full (FC-25)"),
    "publish_paged": ("paged", "PUBLISH: its address is full (FC-26)"),
    "publish_discarded": ("discarded", "PUBLISH: its address is full"),
    "receive_maximum_exceeded": ("refused", "PUBLISH beyond Receive Maximum"),
}
Decision = tuple[str, str]
"""An event and what it is about."""


def reading_paused(connection: Connection) -> list[str]:
    """Why a client is not read; empty if it is."""
    reasons = connection.gate.reasons
    if connection.gate.closed:
        return []
    found = [text for bit, text in REASONS.items() if reasons & bit]
    if connection.paced and REASONS[PACED] not in found:
        found.append("PUBLISHes only: publishers are paced (FC-16)")
    return found


class WatchedSession:
    """Compares the counters of a session with those of the last look."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._counters = client.session.counters
        self._seen = _read(self._counters)
        self._length = _length(client)

    def look(self) -> list[Decision]:
        """What has happened since the last look, in the order in which it happens to a delivery."""
        found = _read(self._counters)
        change = {key: found[key] - self._seen.get(key, 0) for key in found}
        current = self.client.session.counters
        self._seen = found
        if current is not self._counters:  # an interval has ended
            self._counters, self._seen = current, _read(current)
            for key, count in self._seen.items():
                change[key] = change.get(key, 0) + count
        length, before = _length(self.client), self._length
        self._length = length
        changed = any(count > 0 for count in change.values())
        return self._decisions(change, length, before) if changed or length != before else []

    def _decisions(self, change: dict[str, int], length: int, before: int) -> list[Decision]:
        decisions = [
            (GATED, f"{count} of QoS 0: {why}") for key, why in _GATED.items() if (count := change.get(key, 0)) > 0
        ]
        if length > before:
            why = because(waits_for(self.client))
            decisions.append(("queued", f"{length - before} more wait, {length} in all: {why}"))
        elif length < before:
            decisions.append(("drained", f"{before - length} have left the mqueue, {length} wait"))
        for key, count in change.items():
            if key.startswith("dropped_") and count > 0:
                reason, _, qos = key.removeprefix("dropped_").rpartition("_qos")
                decisions.append((DROPPED, f"{count} of QoS {qos}: {reason.replace('_', ' ')}"))
        decisions += [
            (event, f"{count} {text}") for key, (event, text) in _OTHERS.items() if (count := change.get(key, 0)) > 0
        ]
        return decisions


def _read(counters: Counters) -> dict[str, int]:
    found = {key: getattr(counters.uncommon, key) for key in (*_GATED, *_OTHERS)}
    return found | (counters.drops or {})


def _length(client: Client) -> int:
    mqueue = client.session.outbound.mqueue
    return 0 if mqueue is None else mqueue.length


class WatchedReading:
    """Compares the reasons why a connection is not read with those of the last look."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seen = reading_paused(self._connection)

    def look(self) -> list[Decision]:
        """Which reasons have come, and which are gone."""
        before, now = self._seen, reading_paused(self._connection)
        self._seen = now
        return [("paused", f"reading: {each}") for each in now if each not in before] + [
            ("resumed", f"reading: no longer because {each}") for each in before if each not in now
        ]
