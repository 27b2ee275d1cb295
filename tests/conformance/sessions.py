"""A session that outlives its connections and is discarded at the end of the test; waiting for time to pass."""

import time
from types import TracebackType
from typing import Self

from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from tests.conformance.delivery import unique
from tests.support.process import Address
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

LONG = 600
"""Seconds, longer than any test: the Session Expiry Interval of an MQTT 5 session that must not expire."""

PAST = 2.5
"""Seconds after which an interval of one second has passed, also for servers that count whole seconds."""


class KeptSession:
    """One client id that connects again and again without clean start."""

    def __init__(self, address: Address, version: int, *, expiry: int = LONG) -> None:
        self.address = address
        self.version = version
        self.expiry = expiry
        self.client_id = unique("session")
        self._clients: list[WireClient] = []

    def connect(self, properties: Properties | None = None) -> WireClient:
        """Connect to the session, which must exist unless this is the first time."""
        client, present = self.try_connect(properties)
        assert present == (len(self._clients) > 1), "Session Present"
        return client

    def try_connect(self, properties: Properties | None = None) -> tuple[WireClient, bool]:
        """Connect; returns Session Present as well."""
        client = WireClient(self.address, self.version)
        self._clients.append(client)
        told: Properties | None = None
        if self.version == 5:
            told = {props.SESSION_EXPIRY_INTERVAL: self.expiry} | (properties or {})
        connack = client.connect(self.client_id, clean_start=False, properties=told)
        assert connack.reason_code == 0, connack
        return client, connack.session_present

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        with connected(self.address, self.version, client_id=self.client_id) as client:
            client.disconnect()


def let_pass(seconds: float) -> None:
    """Wait until so much time has passed: the passing of time is the condition itself."""
    then = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= then, f"{seconds:g} s later", seconds + 10)


def take(client: WireClient, count: int) -> list[Publish]:
    """Return the next messages, none of which is acknowledged."""
    return [client.expect(Publish) for _ in range(count)]
