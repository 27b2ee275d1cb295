"""A member of a group that ends its session often, with deliveries that it has not acknowledged (FC-13)."""

import random
from collections.abc import Callable

from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.publish import Publish
from tests.durability.client import Client
from tests.support.process import Address

ANEW = 0.3
"""How often a member whose session is kept begins a new one when it connects."""

WITHHELD = 0.1
"""How often it does not acknowledge on this connection."""


class Member(Client):
    """Subscribes at QoS 1: at QoS 2 what it has not acknowledged would end with its session."""

    qos = 1

    def __init__(self, name: str, address: Callable[[], Address], group: str, kept: bool, rng: random.Random) -> None:
        super().__init__(name, address, [group], [])
        self._kept = kept
        self._rng = rng
        self.anew = 0
        """How often it has begun a new session."""

    def _connect(self) -> Connect:
        connect = super()._connect()
        if not self._kept or self._rng.random() < ANEW:
            connect.clean_start = True
            self._has_session = self._subscribed = False
            self.anew += 1
        if not self._kept:
            connect.properties = None
        return connect

    def _receive(self, publish: Publish) -> None:
        self._note(publish)
        if self._rng.random() >= WITHHELD:
            self._send(Puback(publish.packet_id))
