"""A client that is away for about as long as its session, and messages for it, are kept (FC-27)."""

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from protocol import properties as props
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from tests.durability.client import LedgerError
from tests.support.process import Address
from tests.support.wire import WireClient

SESSION_EXPIRY: Final = 3
MESSAGE_EXPIRY: Final = 1
LATE: Final = 2.0
"""Seconds by which a busy broker may notice that a session has expired."""

ANSWER: Final = 60.0
"""Seconds in which a broker that is not killed answers, however busy the machine is."""

KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: SESSION_EXPIRY}
SHORT: Final[Properties] = {props.MESSAGE_EXPIRY_INTERVAL: MESSAGE_EXPIRY}


@dataclass
class Message:
    """One that is acknowledged and has not come yet. Times are of the monotonic clock, in seconds."""

    sent_at: float
    acknowledged_at: float
    expires: bool
    may_be_resent: bool = False
    """Whether it may have been in the window when a connection broke: then it is resent, expired or not (FC-8)."""


class Visitor:
    """Runs in a thread of its own. What the broker has done wrong is in `error`."""

    def __init__(self, name: str, address: Callable[[], Address], rng: random.Random) -> None:
        self.error: LedgerError | None = None
        self.found = self.expired = 0
        """How often its session was there when it came, and how often it had expired."""
        self.restarted_at = 0.0
        """When the broker was started, infinite while it is down.

        A session whose client was there when it was killed is kept from then on.
        """
        self._name = name
        self._topic = f"visitor/{name}"
        self._address = address
        self._rng = rng
        self._going = True
        self._is_subscribed = False
        """Whether its session has begun, and SUBACK has come."""
        self._used_at = 0.0
        """When its session was last certainly in use."""
        self._numbers = 0
        self._waiting: dict[int, Message] = {}
        self._came: set[int] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End when the visit that is under way is over."""
        self._going = False
        self._thread.join()

    def _run(self) -> None:
        while self._going and self.error is None:
            restarted_at = self.restarted_at
            try:
                self._visit()
            except LedgerError as error:
                self.error = error
            except (OSError, AssertionError) as error:  # a connection is closed, or an answer does not come
                if restarted_at == self.restarted_at < math.inf:
                    self.error = LedgerError(f"{self._name} has no answer, although nobody was killed: {error!r}")
                for message in self._waiting.values():
                    message.may_be_resent = True
                time.sleep(0.02)
            else:
                time.sleep(self._rng.choice((0.1, 0.5, 1.5, SESSION_EXPIRY - 1, SESSION_EXPIRY + 3)))

    def _visit(self) -> None:
        with self._client() as client, self._client() as publisher:
            asked_at = time.monotonic()
            clean = not self._is_subscribed
            is_present = client.connect(self._name, clean_start=clean, properties=KEPT).session_present
            if not clean:
                self._check_session(is_present, asked_at, time.monotonic())
            self._use()
            if not is_present:
                self._begin(client)
            publisher.connect(f"for {self._name}")
            marker = self._publish(publisher, expires=False)
            self._receive(client, marker)
            self._check_messages(asked_at, time.monotonic())
            client.send(Disconnect())
            client.expect_close()  # else the broker may still send it what is published next, and resend it later
            self._use()
            for expires in (True, False, True):
                self._publish(publisher, expires)

    def _begin(self, client: WireClient) -> None:
        """Subscribe in a new session."""
        self._waiting.clear()
        self._came.clear()
        self._is_subscribed = False
        client.subscribe(self._topic, qos=1)
        self._is_subscribed = True
        self._use()

    def _client(self) -> WireClient:
        return WireClient(self._address(), 5, timeout=ANSWER)

    def _use(self) -> None:
        """Its session exists now, and expires from now on at the earliest."""
        self._used_at = time.monotonic()

    def _check_session(self, is_present: bool, asked_at: float, answered_at: float) -> None:
        away = f"{answered_at - self._used_at:.2f} s after the client has left"
        if not is_present and answered_at < self._used_at + SESSION_EXPIRY:
            raise LedgerError(f"the session of {self._name} is gone {away}; it is kept for {SESSION_EXPIRY} s")
        if is_present and asked_at > max(self._used_at, self.restarted_at) + SESSION_EXPIRY + LATE:
            raise LedgerError(f"the session of {self._name} is there {away}; it is kept for {SESSION_EXPIRY} s")
        self.found += is_present
        self.expired += not is_present

    def _publish(self, publisher: WireClient, expires: bool) -> int:
        number = self._numbers
        self._numbers += 1
        sent_at = time.monotonic()
        publisher.publish(self._topic, b"%d" % number, 1, properties=SHORT if expires else None)
        self._waiting[number] = Message(sent_at, time.monotonic(), expires)
        return number

    def _receive(self, client: WireClient, marker: int) -> None:
        """Receive all that comes up to the marker, which has been published last."""
        while marker not in self._came:
            message = client.receive_message()
            left = (message.properties or {}).get(props.MESSAGE_EXPIRY_INTERVAL, 0)
            if isinstance(left, int) and left > MESSAGE_EXPIRY:
                raise LedgerError(f"{message.payload!r} for {self._name} is to expire after {left} s")
            self._came.add(int(message.payload))

    def _check_messages(self, asked_at: float, came_at: float) -> None:
        for number, message in self._waiting.items():
            what = f"message {number} for {self._name}, {came_at - message.sent_at:.2f} s after it was sent,"
            has_expired = message.expires and asked_at > message.acknowledged_at + MESSAGE_EXPIRY
            if number in self._came and has_expired and not message.may_be_resent:
                raise LedgerError(f"{what} has come: it had expired when the client asked")
            if number not in self._came and not (message.expires and came_at >= message.sent_at + MESSAGE_EXPIRY):
                raise LedgerError(f"{what} is lost")
        self._waiting.clear()
        self._came.clear()
