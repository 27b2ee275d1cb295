"""What may happen to a session: it happens to its model too, and after each step both must agree."""

from collections.abc import Callable
from typing import Final

from protocol import packet_types
from protocol.errors import MQTTError
from protocol.publish import Publish
from session.counters import Counters
from tests.model.compare import compare_interval
from tests.model.inbound import ClosedError
from tests.model.message import Message
from tests.model.pair import Pair
from tests.model.source import Source, flow_of, pass_time

_TOO_MANY_PASSES: Final = 10_000
_TYPES: Final = {"PUBACK": packet_types.PUBACK, "PUBREC": packet_types.PUBREC, "PUBCOMP": packet_types.PUBCOMP}


def _verdict(handle: Callable[[], bool | None]) -> tuple[bool | None, int]:
    """Whether a PUBLISH is to be routed, and the code with which the connection closes, 0 = it does not."""
    try:
        return handle(), 0
    except ClosedError as error:
        return None, error.code
    except MQTTError as error:
        return None, error.reason_code


class World(Pair):
    """What happens to one session, and to its model. Times in microseconds."""

    # -- the router

    def publish(self, qos: int, size: int, topic: str, expiry: int, source: Source | None = None) -> None:
        """Somebody publishes, or the broker itself; who is held back does so later."""
        if source is None:
            self.route(qos, size, topic, expiry, None)
        else:
            source.send(lambda: self.route(qos, size, topic, expiry, source))

    def route(self, qos: int, size: int, topic: str, expiry: int, source: Source | None) -> None:
        """One delivery is handed over, of `size` payload bytes at least."""
        text = str(self.routed)
        self.routed += 1
        who = source.name if source is not None else "nobody"
        self.note(f"route {text} from {who}: QoS {qos} {topic} {size} bytes, expires after {expiry} s")
        if self.ended:
            return
        payload = text.encode().ljust(size, b".")
        flow = flow_of(source)
        message = Message(text, topic, qos, payload, self.model.now, expiry, flow, number=self.routed)
        if source is not None and qos and self.model.telling.applies():
            lacks = self.model.lacks_room(message)
            self.agree("whether it lacks room", lacks, self.real.lacks_room(message))
            if lacks:
                return  # FC-34: nobody gets it
        self.model.route(message, source.model if source is not None else None)
        self.real.route(message, source.real.outbound if source is not None else None)

    # -- the connection

    def run_pass(self) -> None:
        """The session makes one pass."""
        self.note("pass")
        self.model.run_pass()
        self.real.run_pass()
        self.flush()

    def run(self) -> None:
        """The session makes passes until it has nothing to do, and who has been let go goes on publishing."""
        self._run_passes()
        for source in list(self.sources):
            source.go_on()
        self._run_passes()

    def _run_passes(self) -> None:
        for _ in range(_TOO_MANY_PASSES):
            if not self.real.awake:
                return
            self.run_pass()
        raise AssertionError("passes without end")

    def pause(self) -> None:
        """The transport's buffer is full."""
        self.note("pause")
        self.model.congested = True
        self.real.outbound.sender.set_congested(True, self.real.now)

    def resume(self) -> None:
        """The transport's buffer has emptied; the connection wakes the session."""
        self.note("resume")
        self.model.congested = False
        self.real.outbound.sender.set_congested(False, self.real.now)
        self.real.awake = True

    def connect(self, version: int, receive_maximum: int, maximum_packet_size: int) -> None:
        """A client attaches."""
        self.note(f"connect: version {version}, Receive Maximum {receive_maximum}, packets to {maximum_packet_size}")
        self.model.connect(version, receive_maximum, maximum_packet_size)
        self.real.connect(version, receive_maximum, maximum_packet_size)
        self.flush()

    def disconnect(self) -> None:
        """The connection is gone."""
        self.note("disconnect")
        self.own.pending = []
        self.model.disconnect()
        self.real.part()

    def end(self) -> None:
        """The session is over."""
        self.note("end")
        self.ended = True
        self.model.end()
        self.real.outbound.end(self.real.now)
        self.own.pending = []
        self.tick(self.model.now + 7)
        for source in self.others:
            source.tick(self.model.now)
        self.end_interval()

    # -- what the client sends

    def acknowledge(self, kind: str, packet_id: int, reason_code: int) -> bool:
        """A PUBACK, PUBREC or PUBCOMP arrives. `end_chunk` comes some time later.

        Returns False if it is of the wrong kind.
        """
        self.note(f"{kind} {packet_id} {reason_code:#x}")
        model, session = self.model, self.real.session
        expected = _verdict(lambda: model.acknowledge(kind, packet_id, reason_code))
        found = _verdict(lambda: session.sender.acknowledge(_TYPES[kind], packet_id, reason_code, self.real.now))
        self.agree("whether it is of the wrong kind", expected, found)
        if found[1]:
            self._close()
        return not found[1]

    def _close(self) -> None:
        """The client has broken a rule."""
        self.flush()
        self.disconnect()

    def send(self, qos: int, packet_id: int, fate: str, dup: bool = False) -> bool:
        """A PUBLISH arrives, and is `routed`, routed to `nobody`, `refused`, `parked` or `paged`.

        Returns False if it broke a rule.
        """
        self.note(f"PUBLISH QoS {qos} id {packet_id}{' DUP' if dup else ''}: {fate}")
        publish = Publish(b"in", b"payload", qos, False, None, packet_id, dup)
        expected = _verdict(lambda: self.model.on_publish(qos, packet_id, publish.size, dup))
        accepted = _verdict(lambda: self.real.session.inbound.accept(publish))
        self.agree("whether to route", expected, accepted)
        if accepted[1]:
            self._close()
            return False
        if not accepted[0]:
            return True
        if fate == "parked":
            self.model.books.count("publish_parked")
            self.model.inbound.park(qos, packet_id, self.model.now)
            self.real.session.inbound.park(publish)
            self.parked.append((publish, self.real.session.inbound.connection))
        else:
            if fate == "paged":
                self.model.books.count("publish_paged")
                self.real.session.counters.begin_uncommon().publish_paged += 1
            self._answer(publish, fate)
        return True

    def _answer(self, publish: Publish, fate: str) -> None:
        code = {"routed": 0, "nobody": 0x10, "refused": 0x97, "paged": 0}[fate]
        self.model.answer(publish.qos, publish.packet_id, code)
        if fate == "refused":
            self.real.session.inbound.refuse(publish, code)
        else:
            self.real.session.inbound.answer(publish, fate != "nobody", self.real.now)

    def unpark(self, position: int, fate: str) -> None:
        """What was parked is settled; who is not there to be told is not told (FC-25)."""
        publish, connection = self.parked.pop(position)
        qos, packet_id = publish.qos, publish.packet_id
        self.note(f"unpark QoS {qos} id {packet_id}: {fate}")
        model = self.model
        expected = model.connected and model.inbound.expects(qos, packet_id, connection)
        model.inbound.unpark(qos, packet_id, connection)
        model.books.count("publish_parked_us", 5)
        self.agree("expected", expected, self.real.session.inbound.unpark(publish, connection, 5, self.real.now))
        if expected:
            self._answer(publish, fate)
            self.flush()
        elif fate != "refused":
            if qos == 2:
                model.inbound.remember(packet_id, model.now, here=False)
            self.real.session.inbound.answer_late(publish, True, False, self.real.now)

    def release(self, packet_id: int) -> None:
        """A PUBREL arrives."""
        self.note(f"PUBREL {packet_id}")
        self.model.on_pubrel(packet_id)
        self.real.session.inbound.release(packet_id)
        self.real.route_parked(self.real.now)

    def end_chunk(self) -> None:
        """What has been read at once has been handled."""
        self.note("end of chunk")
        self.model.drain()
        if self.real.outbound.drain(self.real.now):
            self.real.awake = True
        self.flush()

    # -- time

    def wait(self, microseconds: int, late: bool) -> None:
        """Time passes; timers fire when they are due, or `late`, all at the end."""
        self.note(f"wait {microseconds} us, timers {'late' if late else 'on time'}")
        now = self.model.now
        pass_time([self, *self.others], now, now + microseconds, late)
        for source in self.sources:
            source.late += microseconds * late

    def timer_at(self) -> int:
        """When the session's timer fires; 0 = it does not."""
        return self.real.timer_at

    def tick(self, now: int) -> None:
        """The clock moves on."""
        self.model.tick(now)
        self.real.now = now

    def fire(self) -> None:
        """The timer that the session has asked for fires, or one that it has replaced; passes follow."""
        due = self.real.timer_due()
        self.note("timer" if due else "timer, not due")
        self.real.fire()
        if due:
            farewell = self.model.on_timer()
            self.agree("written at last", farewell, self.real.farewell)
            self.real.farewell = None
            self.real.awake = self.real.outbound.sender.connected
            self._run_passes()
            assert not self.real.timer_due(), "a timer for a time that has passed"
        self.check()

    # -- the books

    def end_interval(self) -> None:
        """The metrics interval ends."""
        self.note("interval")
        books = self.model.end_interval()
        counters: Counters = self.real.session.take_counters(self.real.now)
        compare_interval(self.model, books, counters)
        life = self.real.session.totals(self.real.now)
        self.agree("life", self.model.life, {name: getattr(life, name) for name in self.model.life})

    def hold_back(self, throttled: bool, paused: bool) -> None:
        """The connection is not read because of its rate (FC-23), or for another reason."""
        self.note(f"throttled {throttled}, reading paused {paused}")
        self.model.throttled = throttled
        self.model.reading_paused = paused
        self.real.session.throttle(throttled, self.real.now)
        self.real.session.note_reading_paused(paused, self.real.now)
