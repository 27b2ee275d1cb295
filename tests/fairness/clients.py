"""The clients: paho-mqtt as it is, over MQTT 3.1.1, which all brokers speak."""

import math
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from multiprocessing.connection import Connection
from typing import Any, Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.fairness.cases import Publisher, Reader
from tests.support.process import Address
from tests.support.waiting import wait_until

HEAD: Final = struct.Struct(">HId")
"""The beginning of a payload: publisher, number, and when it was due (CLOCK_MONOTONIC, the same in all processes)."""
KEEP_ALIVE: Final = 600
"""Seconds: a reader that stalls is not disconnected for it."""
LATE: Final = 0.05
"""Seconds that a reader with a rate catches up if the machine has not scheduled it."""
CALM: Final = 10.0
"""Seconds without an acknowledgement after which a publisher gives up on what is left."""
MOST: Final = 65_535
"""Messages of one publisher: paho's numbers then begin anew."""


def _client(name: str, clean: bool = True, manual_ack: bool = False) -> mqtt.Client:
    made = mqtt.Client(
        CallbackAPIVersion.VERSION2,
        name,
        clean_session=clean,
        protocol=MQTTProtocolVersion.MQTTv311,
        manual_ack=manual_ack,
    )
    made.reconnect_delay_set(1, 1)
    return made


@dataclass(frozen=True)
class Sent:
    """What one publisher has published: how many messages, and which of them were acknowledged."""

    count: int
    acknowledged: frozenset[int]


class _Publishing:
    """One publisher, and what it has to publish."""

    def __init__(self, address: Address, number: int, plan: Publisher, seconds: float) -> None:
        self.left = plan.messages(seconds)
        if self.left > MOST:
            raise ValueError(f"a publisher of {self.left} messages: at most {MOST} can be told apart")
        self.sent = 0
        self.acknowledged: list[int] = []
        self.client = _client(f"publisher-{number}")
        self.client.on_publish = self._on_publish
        self.client.connect(*address, keepalive=KEEP_ALIVE)
        self.client.loop_start()
        self._ids: list[int] = []
        self._number, self._plan = number, plan
        self._apart = 0.0 if plan.count else 1 / plan.rate
        self._phase = number * 0.618 % 1.0  # neighbours do not publish at the same moment

    def due(self, start: float) -> float:
        """When the next message is to be published."""
        return start + (self.sent + self._phase) * self._apart

    def publish(self, due: float) -> None:
        """Publish the next message; paho keeps it until its own window has room."""
        payload = HEAD.pack(self._number, self.sent, due).ljust(self._plan.size, b".")
        self._ids.append(self.client.publish(self._plan.topic, payload, qos=1).mid)
        self.sent += 1
        self.left -= 1

    def result(self) -> Sent:
        """The books of this publisher."""
        answered = set(self.acknowledged)
        return Sent(self.sent, frozenset(n for n, packet_id in enumerate(self._ids) if packet_id in answered))

    def _on_publish(self, client: mqtt.Client, data: Any, mid: int, reason: Any, properties: Any) -> None:
        self.acknowledged.append(mid)


def publish(address: Address, plans: Sequence[Publisher], seconds: float, orders: Connection) -> None:
    """Run all publishers in this process: say that they are connected, wait for an order, answer with what was sent.

    They end when all is acknowledged, or nothing has been for a while.
    """
    publishers = [_Publishing(address, number, plan, seconds) for number, plan in enumerate(plans)]
    wait_until(lambda: all(each.client.is_connected() for each in publishers), "all publishers connected")
    orders.send("connected")
    orders.recv()
    _publish_all(publishers, time.monotonic())
    _wait_for_acknowledgements(publishers)
    orders.send([each.result() for each in publishers])
    for each in publishers:
        each.client.disconnect()
        each.client.loop_stop()


def _publish_all(publishers: Sequence[_Publishing], start: float) -> None:
    turns = [(each.due(start), number) for number, each in enumerate(publishers)]
    heapify(turns)
    while turns:
        due, number = turns[0]
        if (early := due - time.monotonic()) > 0:
            time.sleep(early)  # a publisher has a rate: its next PUBLISH is not due yet
        publisher = publishers[number]
        publisher.publish(due)
        if publisher.left:
            # Those who publish as fast as they can take turns, too.
            heapreplace(turns, (max(publisher.due(start), due + 1e-9), number))
        else:
            heappop(turns)


def _wait_for_acknowledgements(publishers: Sequence[_Publishing]) -> None:
    sent, seen, changed = sum(each.sent for each in publishers), -1, time.monotonic()
    while seen < sent and time.monotonic() - changed < CALM:
        if (now := sum(len(each.acknowledged) for each in publishers)) != seen:
            seen, changed = now, time.monotonic()
        time.sleep(0.05)


class SlowReader:
    """One subscriber; its thread is busy with a message for as long as its rate says, and reads nothing meanwhile."""

    def __init__(self, address: Address, number: int, plan: Reader) -> None:
        self.plan = plan
        self.latencies: dict[tuple[int, int], float] = {}
        """Seconds from when a message was due until it has come for the first time, by publisher and number."""
        self._free_at = 0.0
        self._released = threading.Event()
        if not plan.stalls:
            self._released.set()
        self._acknowledges = not plan.silent
        subscribed = threading.Event()
        self._client = client = _client(f"reader-{number}", clean=not plan.kept, manual_ack=plan.silent)
        client.on_message = self._on_message
        client.on_subscribe = lambda *_: subscribed.set()
        client.connect(*address, keepalive=KEEP_ALIVE)
        client.subscribe(plan.topic, qos=1)
        client.loop_start()
        wait_until(subscribed.is_set, "a SUBACK")

    def release(self) -> None:
        """End the stall."""
        self._released.set()

    def leave(self) -> None:
        """Disconnect; the session is kept."""
        self._client.disconnect()
        self._client.loop_stop()

    def come_back(self) -> None:
        """Connect again."""
        self._client.reconnect()
        self._client.loop_start()

    def cut(self) -> None:
        """Lose the connection; paho connects again after a second."""
        connection = self._client.socket()
        assert isinstance(connection, socket.socket)
        connection.shutdown(socket.SHUT_RDWR)

    def acknowledge(self) -> None:
        """Lose the connection, and acknowledge from now on, first what is sent again."""
        self._acknowledges = True
        self.cut()

    def close(self) -> None:
        """Disconnect."""
        self._released.set()
        self.leave()

    def _on_message(self, client: mqtt.Client, data: Any, message: mqtt.MQTTMessage) -> None:
        self._released.wait()
        now = time.monotonic()
        publisher, number, due = HEAD.unpack_from(message.payload)
        self.latencies.setdefault((publisher, number), now - due)
        if self.plan.rate < math.inf:
            self._free_at = max(self._free_at, now - LATE) + 1 / self.plan.rate
            if (busy := self._free_at - now) > 0:
                time.sleep(busy)  # a slow reader is what is measured
        if self.plan.silent and self._acknowledges:
            client.ack(message.mid, message.qos)
