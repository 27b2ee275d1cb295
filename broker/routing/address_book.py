"""Which topics are addresses, and which rule applies to each (FC-24)."""

from collections import deque
from collections.abc import Mapping
from typing import Final, final

from session.address import PAGE, UNLIMITED, Address, AddressRule
from session.most_specific import NONE, MostSpecific

SPARE: Final = 1_000
"""Unused addresses that are kept: one that was just found may not hold a delivery yet."""
_CHECKED: Final = 2
"""Addresses checked for eviction for each new one. So, besides the spare ones, no more are unused than in use."""

_UNLIMITED: Final = AddressRule(UNLIMITED, PAGE)
"""For the pages of a topic that has no limit any more: they are routed at once, and what comes meanwhile after them."""


@final
class AddressBook:
    """The known addresses: those in use, and some unused ones."""

    def __init__(self, rules: list[tuple[str, AddressRule]]) -> None:
        """`rules`: topic filters with their rules; the most specific filter that matches applies."""
        self._rules = [rule for _, rule in rules]
        self._matching = MostSpecific([topic_filter for topic_filter, _ in rules]) if rules else None
        self.blocked: dict[bytes, Address] = {}
        """FC-34: topics without a limit whose PUBLISHes wait for room in a queue."""
        self._addresses: dict[bytes, Address] = {}
        self._round: deque[Address] = deque()

    def __len__(self) -> int:
        return len(self._addresses)

    def limits_topics(self) -> bool:
        """Whether any topic is an address."""
        return self._matching is not None

    def known(self) -> list[Address]:
        """A list of all known addresses."""
        return list(self._addresses.values())

    def get(self, topic: bytes) -> Address | None:
        """The known address of a topic; None if there is none."""
        return self._addresses.get(topic)

    def knows(self, address: Address) -> bool:
        """Whether this one has not been evicted."""
        return self._addresses.get(address.topic) is address

    def find(self, topic: bytes, routed: Mapping[bytes, object]) -> Address | None:
        """The topic's address; None if it has no limit. `routed`: topics whose address is referenced elsewhere."""
        address = self._addresses.get(topic)
        matching = self._matching
        if address is not None or matching is None:
            return address
        number = matching.find(topic)
        return None if number == NONE else self._add(topic, self._rules[number], routed)

    def restore(self, topic: bytes, routed: Mapping[bytes, object]) -> Address:
        """The address of a topic whose pages the journal holds (FC-26); without a limit if the topic has none now."""
        address = self.find(topic, routed)
        return self._add(topic, _UNLIMITED, routed) if address is None else address

    def _add(self, topic: bytes, rule: AddressRule, routed: Mapping[bytes, object]) -> Address:
        self._forget(routed)
        address = self._addresses[topic] = Address(topic, rule)
        self._round.append(address)
        return address

    def _forget(self, routed: Mapping[bytes, object]) -> None:
        """Evict unused addresses, round-robin."""
        around = self._round
        if len(around) < SPARE:
            return
        for _ in range(_CHECKED):
            address = around.popleft()
            if address.size or address.watcher is not None or address.topic in routed:
                around.append(address)
            else:
                del self._addresses[address.topic]
