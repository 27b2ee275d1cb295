"""What the ledger knows of each delivery: bytes of flags, and from them how it has ended."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

OWED: Final = 1
CAME: Final = 2
"""Its receiver has acknowledged it."""
TOLD: Final = 4
"""A drop event has told of it (FC-35)."""
CAME_NOW: Final = 8
TOLD_NOW: Final = 16
"""The same, since the broker began: after a crash a delivery may come back to life, and end once more."""

UNANSWERED: Final = 0
TAKEN: Final = 1
"""The publisher has got success."""
REFUSED: Final = 2
"""It has got a reason code of 0x80 or above, mostly 0x97: nobody gets the message."""
IN_DOUBT: Final = 3
"""QoS 1, and the connection was lost before the acknowledgement: it may have been routed or not."""

_FORGET: Final = bytes(each & ~(CAME_NOW | TOLD_NOW) for each in range(256))
_FORGET_CAME: Final = bytes(each & ~CAME_NOW for each in range(256))
MOST_FAULTS: Final = 20
CONFLATED: Final = b"c/"
"""How topics begin of which only the newest delivery waits. One publisher publishes to each of them."""

SUPERSEDED: Final = "superseded"
IN_GROUP: Final = "superseded in a group"
BOTH: Final = "acknowledged, and told around a restart"
NO_ANSWER: Final = "nothing, and its publisher had no answer"


@dataclass
class Page:
    """The deliveries to one session, or to one group, by the number of the message."""

    name: str
    qos: int = 2
    """Of its subscription."""
    subscribed: bool = False
    denied: frozenset[bytes] = frozenset()
    """Topics that it may not receive at present."""
    flags: bytearray = field(default_factory=bytearray)
    reasons: dict[int, str] = field(default_factory=dict)
    """Why those were dropped that were told of."""
    summed: Counter[str] = field(default_factory=Counter)
    """Drops that were told of in sums, by reason."""


class Books:
    """All messages of a round, and a page for each receiver."""

    def __init__(self, pages: Iterable[Page], clients: dict[str, str], *, sums: bool, conflates: bool) -> None:
        """`clients`: the pages of client ids; `sums`: whether drops may be told of in sums."""
        self.pages = {page.name: page for page in pages}
        self.faults: list[str] = []
        self.moved = 0
        """Anything that has come or was answered."""
        self._clients = clients
        self._sums = sums
        self._conflates = conflates
        self._status = bytearray()
        self._topics: list[bytes] = []
        self._repeated: set[int] = set()

    @property
    def messages(self) -> int:
        """How many messages there are."""
        return len(self._status)

    @property
    def deliveries(self) -> int:
        """How many deliveries were owed."""
        return sum(len(page.flags) - page.flags.count(0) for page in self.pages.values())

    def add(self, topic: bytes) -> int:
        """A message is about to be published; returns its number."""
        self._status.append(UNANSWERED)
        self._topics.append(topic)
        for page in self.pages.values():
            page.flags.append(OWED if page.subscribed and topic not in page.denied else 0)
        return len(self._status) - 1

    def answered(self, number: int, status: int) -> None:
        """Its publisher has got an answer, or gets none any more."""
        self._status[number] = status
        self.moved += 1

    def repeated(self, number: int) -> None:
        """It is published again with its packet id, because the answer did not come."""
        self._repeated.add(number)

    def came(self, page: Page, number: int, qos: int, dup: bool) -> None:
        """A receiver acknowledges a delivery, which it has not seen before if it is of QoS 2."""
        flags = page.flags[number]
        self.moved += 1
        page.flags[number] = flags | CAME | CAME_NOW
        if not flags & OWED:
            self.fault(page, number, "has come to who is not to get it")
        elif flags & TOLD_NOW:
            self.fault(page, number, f"was told as {page.reasons.get(number)}, and has come")
        elif flags & CAME and (qos == 2 or (flags & CAME_NOW and not dup)):
            self.fault(page, number, f"has come twice at QoS {qos}")

    def told(self, loser: str, number: int, reason: str) -> None:
        """A drop event tells of a delivery."""
        page = self.pages[self._clients.get(loser, loser)]
        flags = page.flags[number]
        self.moved += 1
        page.flags[number] = flags | TOLD | TOLD_NOW
        if not flags & OWED:
            self.fault(page, number, f"was told as {reason}, and nobody was to get it")
        elif flags & CAME_NOW:
            self.fault(page, number, f"was acknowledged, and told as {reason}")
        elif flags & TOLD_NOW:
            self.fault(page, number, f"was told as {reason}, and before as {page.reasons.get(number)}")
        page.reasons[number] = reason

    def summed(self, loser: str, reason: str, count: int) -> None:
        """A drop event tells of so many others."""
        self.moved += 1
        if not self._sums:
            self.faults.append(f"{count} deliveries of {loser} are told in a sum, although there is no rate")
        self.pages[self._clients.get(loser, loser)].summed[reason] += count

    def crashed(self) -> None:
        """The broker has been killed."""
        for page in self.pages.values():
            page.flags = page.flags.translate(_FORGET)

    def stopped(self) -> None:
        """The broker has ended in order: acknowledgements that it had not read are lost."""
        for page in self.pages.values():
            page.flags = page.flags.translate(_FORGET_CAME)

    def fault(self, page: Page, number: int, what: str) -> None:
        """Something is as it must not be."""
        topic = self._topics[number].decode()
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"message {number} on {topic} to {page.name} {what}")

    def close(self) -> tuple[Counter[str], list[str]]:
        """How many deliveries have ended in which way, and what is wrong so far."""
        ends: Counter[str] = Counter()
        wrong = list(self.faults)
        for page in self.pages.values():
            wrong += self._close(page, ends)
        return ends, wrong

    def _close(self, page: Page, ends: Counter[str]) -> list[str]:
        """Count how the deliveries of a page have ended; the newest first, for those that are superseded (FC-37)."""
        newer: set[bytes] = set()
        missing: list[int] = []
        in_doubt = 0
        wrong: list[str] = []
        for number in range(len(page.flags) - 1, -1, -1):
            flags, status = page.flags[number], self._status[number]
            if not flags & OWED:
                continue
            if flags & (CAME | TOLD):
                newer.add(self._topics[number])
            end = self._end(page, number, flags, status, newer)
            in_doubt += end == NO_ANSWER
            if end:
                ends[end] += 1
            else:
                missing.append(number)
            early = page.qos == 1 and number in self._repeated and not flags & TOLD  # FC-27: before the kill
            if status == REFUSED and flags & (CAME | TOLD) and not early:
                wrong.append(f"message {number} to {page.name} was refused, and yet {end}")
        told = page.summed.total()
        if told:
            ends["told in a sum"] += min(told, len(missing))
        if len(missing) > told:
            topics = ", ".join(f"{each} on {self._topics[each].decode()}" for each in missing[:5])
            wrong.append(f"{page.name}: {len(missing) - told} deliveries unaccounted, such as {topics}")
        elif len(missing) + in_doubt < told:  # what its publisher had no answer about may have been dropped
            wrong.append(f"{page.name}: {told} deliveries told in sums, and only {len(missing)} are missing")
        return wrong

    def _end(self, page: Page, number: int, flags: int, status: int, newer: set[bytes]) -> str:
        """How a delivery has ended; empty if nobody knows."""
        if flags & CAME and flags & TOLD:
            return BOTH
        if flags & CAME:
            return "acknowledged"
        if flags & TOLD:
            return f"told as {page.reasons[number]}"
        if status == REFUSED:
            return "refused to its publisher"
        if status == IN_DOUBT:
            return NO_ANSWER
        topic = self._topics[number]
        if self._conflates and topic.startswith(CONFLATED) and topic in newer:
            return IN_GROUP if page.name.startswith("$share/") else SUPERSEDED
        return ""
