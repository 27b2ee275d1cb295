"""The packet ids of received PUBLISHes: our Receive Maximum, and the ids that wait for PUBREL (FC-20 to FC-22)."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from protocol import reason_codes
from protocol.errors import MQTTError
from protocol.publish import Publish
from session.counters import Counters
from session.limits import Limits
from session.packet_ids import KEYS
from session.parked import ParkedIds, ParkedPublishes

ROUTE: Final = 0
DUPLICATE: Final = 1
"""Acknowledge it again, do not route it again."""
NO_ROOM: Final = 2
"""As many ids wait for PUBREL as may: call `wait` next (FC-22)."""
IGNORE: Final = 3
"""Neither route nor acknowledge it: it is parked already, and acknowledged later (FC-22, FC-25)."""


@mypyc_attr(acyclic=True)  # it refers to PUBLISHes only, which are acyclic too: 16 bytes less
@final
class ReceivedIds:
    """Which QoS 1 and 2 PUBLISHes of one client are new, and how many are unacknowledged."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: ParkedPublishes | None = None
        """PUBLISHes that wait for a free id (FC-22); None = there are none."""
        self._overflowing = False  # an episode is under way
        self._parked: ParkedIds | None = None
        self._awaiting_rel: dict[int, int] | None = None  # packet id -> microseconds when it was stored, oldest first
        self._earlier: set[int] | None = None  # those among them from earlier connections
        self.forgotten: set[int] | None = None
        """FC-22a: ids of PUBLISHes that were routed, and whose PUBREL was overdue; None = there are none."""

    def connect(self) -> None:
        """A new connection: the count against the Receive Maximum starts at 0 (section 4.9)."""
        if self._parked is not None:
            self._parked.connect()
        awaiting = self._awaiting_rel
        self._earlier = set(awaiting) if awaiting else None

    def begin_anew(self) -> list[int]:
        """The other end has lost its session, and may use each id again; returns those that waited for PUBREL."""
        ids = [*(self._awaiting_rel or ()), *(self.forgotten or ())]
        self._awaiting_rel = self._earlier = self.forgotten = None
        return ids

    def disconnect(self) -> None:
        """Forget what waits for an id: it is unacknowledged, so the client resends it when it reconnects."""
        self.waiting = None
        self._overflowing = False

    @property
    def awaiting_rel_len(self) -> int:
        """How many QoS 2 packet ids wait for PUBREL."""
        awaiting = self._awaiting_rel
        return len(awaiting) if awaiting is not None else 0

    def accept_qos1(self, packet_id: int, version: int, counters: Counters) -> int:
        """Decide on a QoS 1 PUBLISH, DUP or not (FC-21): ROUTE, or IGNORE if it is parked already (FC-25).

        Raises MQTTError 0x93 above the Receive Maximum (FC-20).
        """
        if self._parked is not None and self._parked.has_qos1(packet_id):
            return IGNORE
        if version == 5 and self._unacknowledged() >= self.limits.receive_maximum:
            self._past_receive_maximum(counters)
        return ROUTE

    def accept_qos2(self, packet_id: int, version: int, counters: Counters) -> int:
        """Decide on a QoS 2 PUBLISH: ROUTE, DUPLICATE, NO_ROOM or IGNORE. `remember` it once it is routed.

        Raises MQTTError 0x93 above the Receive Maximum (FC-20).
        """
        awaiting = self._awaiting_rel
        if awaiting is None:
            awaiting = self._awaiting_rel = {}
        if KEYS[packet_id] in awaiting:
            self._not_earlier(packet_id)
            return DUPLICATE  # FC-21
        parked = self._parked
        if parked is not None and parked.sees_qos2(packet_id):
            return IGNORE  # FC-25
        waiting = self.waiting
        if waiting is not None and packet_id in waiting.publishes:
            return IGNORE  # FC-22
        if version == 5 and self._unacknowledged() >= self.limits.receive_maximum:
            self._past_receive_maximum(counters)
        bound = self.limits.max_awaiting_rel
        if waiting is not None or (bound and len(awaiting) + (parked.qos2 if parked is not None else 0) >= bound):
            # FC-9, FC-22
            counters.begin_uncommon().awaiting_rel_refused += 1
            return NO_ROOM
        return ROUTE

    def _has_room(self) -> bool:
        """FC-22: whether one more id may wait for PUBREL; ids of PUBLISHes parked at full addresses count too."""
        bound = self.limits.max_awaiting_rel
        parked = self._parked
        return not bound or self.awaiting_rel_len + (parked.qos2 if parked is not None else 0) < bound

    # -- PUBLISHes that wait for an id (FC-22)

    def wait(self, publish: Publish) -> bool:
        """Park a QoS 2 PUBLISH until an id is free; returns whether an episode begins.

        Raises MQTTError 0x97 if the producer window is used up.
        """
        waiting = self.waiting
        if waiting is None:
            waiting = self.waiting = ParkedPublishes()
        limits = self.limits
        if waiting.bytes >= limits.producer_window_size:
            raise MQTTError(
                reason_codes.QUOTA_EXCEEDED,
                f"QoS 2 PUBLISHes past session.max_awaiting_rel, {limits.max_awaiting_rel}, use up "
                f"session.producer_window_size, {limits.producer_window_size} bytes, and no PUBREL has come",
            )
        waiting.add(publish)
        begins = not self._overflowing
        self._overflowing = True
        return begins

    def may_take_parked(self) -> bool:
        """Whether a PUBLISH waits for an id, and one is free."""
        return self.waiting is not None and self._has_room()

    def take_parked(self) -> Publish | None:
        """Remove and return the PUBLISH that has waited longest for an id, if one is free; the caller routes it."""
        waiting = self.waiting
        if waiting is None or not self._has_room():
            return None
        publish = waiting.pop()
        if not waiting.publishes:
            self.waiting = None
        return publish

    def remember(self, packet_id: int, now: int, here: bool = True) -> None:
        """A QoS 2 PUBLISH has been routed: its id waits for PUBREL (FC-21). Not for a refused one.

        `here`: it was received on the current connection.
        """
        awaiting = self._awaiting_rel
        if awaiting is None:
            awaiting = self._awaiting_rel = {}
        awaiting[KEYS[packet_id]] = now
        if not here:
            earlier = self._earlier
            if earlier is None:
                earlier = self._earlier = set()
            earlier.add(packet_id)

    def park(self, qos: int, packet_id: int) -> None:
        """Park an accepted QoS 1 or 2 PUBLISH (FC-25): it counts against the Receive Maximum."""
        parked = self._parked
        if parked is None:
            parked = self._parked = ParkedIds()
        parked.add(qos, packet_id)

    def is_here(self, qos: int, packet_id: int, current: bool) -> bool:
        """Whether a parked PUBLISH was sent or resent on the current connection; `current`: first received on it."""
        if qos == 2 and self._parked is not None:
            return self._parked.has_seen(packet_id)
        return current

    def unpark(self, qos: int, packet_id: int, current: bool) -> None:
        """A PUBLISH, first received on the `current` connection or an earlier one, is no longer parked."""
        parked = self._parked
        if parked is None:
            return
        if qos == 2:
            parked.remove_qos2(packet_id)
        elif current:
            parked.remove_qos1(packet_id)

    def release(self, packet_id: int) -> bool:
        """Forget the id of a received PUBREL; False if it was unknown (FC-21)."""
        awaiting = self._awaiting_rel
        if awaiting is None:
            return False
        self._not_earlier(packet_id)
        key = KEYS[packet_id]
        known = key in awaiting
        if known:
            del awaiting[key]
        elif self.forgotten is not None:
            known = self.reuse(packet_id)  # FC-22a
        if self._overflowing and not awaiting:
            self._end_episode()
        return known

    def reuse(self, packet_id: int) -> bool:
        """FC-22a: an id is free for another PUBLISH; False if it was not a forgotten one."""
        forgotten = self.forgotten
        if forgotten is None or packet_id not in forgotten:
            return False
        forgotten.remove(packet_id)
        if not forgotten:
            self.forgotten = None
        return True

    def restore(self, packet_ids: list[int], now: int) -> None:
        """FC-27: ids whose PUBREL had not come when the process before ended, oldest first.

        If there are more than may wait, the oldest of them are forgotten ones (FC-22a).
        """
        bound = self.limits.max_awaiting_rel
        overdue = len(packet_ids) - bound if 0 < bound < len(packet_ids) else 0
        if overdue:
            self.forgotten = set(packet_ids[:overdue])
        for packet_id in packet_ids[overdue:]:
            self.remember(packet_id, now)

    def deadline(self) -> int:
        """When the oldest packet id is due to be forgotten (FC-22), in microseconds; 0 = never."""
        awaiting = self._awaiting_rel
        timeout = self.limits.await_rel_timeout
        if not awaiting or not timeout:
            return 0
        for since in awaiting.values():
            return since + timeout
        return 0

    def forget_overdue(self, now: int, counters: Counters) -> None:
        """FC-22: forget and count the ids that have waited for PUBREL longer than `await_rel_timeout`."""
        awaiting = self._awaiting_rel
        timeout = self.limits.await_rel_timeout
        overdue: list[int] = []
        if not awaiting or not timeout:
            return
        for packet_id, since in awaiting.items():
            if now - since < timeout:
                break
            overdue.append(packet_id)
        for packet_id in overdue:
            del awaiting[packet_id]
            self._not_earlier(packet_id)
        if overdue:
            if self.forgotten is None:
                self.forgotten = set()
            self.forgotten.update(overdue)
            counters.begin_uncommon().awaiting_rel_expired += len(overdue)
        if not awaiting:
            self._end_episode()

    def _end_episode(self) -> None:
        """No id waits for PUBREL any more: the episode ends, unless a PUBLISH waits for an id."""
        if self.waiting is None:
            self._overflowing = False

    def _unacknowledged(self) -> int:
        """PUBLISHes of this connection that the client counts as unacknowledged (FC-20)."""
        earlier = self._earlier
        parked = self._parked
        waiting = self.waiting
        count = self.awaiting_rel_len - (len(earlier) if earlier is not None else 0)
        if parked is not None:
            count += parked.here
        if waiting is not None:
            count += len(waiting.publishes)
        return count

    def _not_earlier(self, packet_id: int) -> None:
        if self._earlier is not None:
            self._earlier.discard(packet_id)

    def _past_receive_maximum(self, counters: Counters) -> None:
        if not self.limits.tolerate_receive_maximum:  # [MQTT-3.3.4-7]
            raise MQTTError(
                reason_codes.RECEIVE_MAXIMUM_EXCEEDED,
                f"more than {self.limits.receive_maximum} QoS 1 and 2 PUBLISHes unacknowledged; the Receive Maximum "
                "is the limit, session.receive_maximum",
            )
        counters.begin_uncommon().receive_maximum_exceeded += 1
