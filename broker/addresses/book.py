"""Which topics are addresses, and which rule applies to each (FC-24)."""

from collections import deque
from collections.abc import Mapping
from typing import Final, final

from protocol.most_specific import NONE, MostSpecific
from session.address import Address, AddressRule

SPARE: Final = 1_000
"""Addresses that nobody need use: who has just found one may not hold anything of it yet."""
_LOOKED_AT: Final = 2
"""Addresses that are looked at, whether they can be forgotten, for each new one: so besides the spare ones at most as
many as are in use are not."""


@final
class AddressFull(Exception):  # noqa: N818 - it is named for what happens, as all that is no failure
    """A PUBLISH cannot be routed now."""

    def __init__(self, address: Address) -> None:
        self.address = address


@final
class AddressBook:
    """The addresses that are known: those in use, and some that are not."""

    def __init__(self, rules: list[tuple[str, AddressRule]]) -> None:
        """`rules`: topic filters, each with what applies where it is the most specific one that matches."""
        self._rules = [rule for _, rule in rules]
        self._matching = MostSpecific([topic_filter for topic_filter, _ in rules]) if rules else None
        self._addresses: dict[bytes, Address] = {}
        self._round: deque[Address] = deque()

    def __len__(self) -> int:
        return len(self._addresses)

    def known(self) -> list[Address]:
        """All of them at this moment."""
        return list(self._addresses.values())

    def knows(self, address: Address) -> bool:
        """Whether this one has not been forgotten."""
        return self._addresses.get(address.topic) is address

    def find(self, topic: bytes, routed: Mapping[bytes, object]) -> Address | None:
        """The topic's address; None if nothing limits it. `routed`: topics whose address somebody may remember."""
        matching = self._matching
        if matching is None:
            return None
        address = self._addresses.get(topic)
        if address is not None:
            return address
        number = matching.find(topic)
        if number == NONE:
            return None
        self._forget(routed)
        address = self._addresses[topic] = Address(topic, self._rules[number])
        self._round.append(address)
        return address

    def _forget(self, routed: Mapping[bytes, object]) -> None:
        """Forget what is not used, of those that it is the turn of."""
        around = self._round
        if len(around) < SPARE:
            return
        for _ in range(_LOOKED_AT):
            address = around.popleft()
            if address.size or address.watcher is not None or address.topic in routed:
                around.append(address)
            else:
                del self._addresses[address.topic]
