"""Topic aliases in deliveries to one client: its most used topics get them, up to its maximum (section 3.3.2.3.4)."""

from typing import Final, final

PERIOD: Final = 1_024
"""Deliveries from one review to the next; a review reassigns aliases to the topics used most since the last one."""
SHORTEST: Final = 4
"""Bytes of the shortest topic that gets an alias: the property itself takes three."""
LONGEST: Final = 1_024
"""Bytes of the longest: topics that anybody publishes are kept for each client."""


@final
class Aliases:
    """The aliases of one connection, from 1 to `maximum`."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._aliases: dict[bytes, int] = {}
        self._free: list[int] = []
        self._promoted: set[bytes] = set()
        """Topics for which the aliases in `_free` are reserved."""
        self._uses: dict[bytes, int] = {}
        """Uses in this period, by topic."""
        self._left: int = PERIOD

    def known(self, topic: bytes) -> int:
        """The alias that the client already has for `topic`; 0 = none. Call it once per delivery: it counts."""
        if len(topic) > LONGEST:
            return 0
        uses = self._uses
        uses[topic] = uses.get(topic, 0) + 1
        self._left -= 1
        if self._left == 0:
            self._review()
        return self._aliases.get(topic, 0)

    def assign(self, topic: bytes) -> int:
        """A new alias, to be sent together with the topic; 0 = none is available."""
        if not SHORTEST <= len(topic) <= LONGEST:
            return 0
        given = len(self._aliases) + len(self._free)
        if given < self.maximum:
            alias: int = given + 1
        elif self._free and topic in self._promoted:
            alias = self._free.pop()
        else:
            return 0
        self._aliases[topic] = alias
        return alias

    def _review(self) -> None:
        """Free the aliases of topics used less than topics without one; these get them at their next delivery."""
        uses = self._uses
        aliases = self._aliases
        wanting = [(count, topic) for topic, count in uses.items() if topic not in aliases and len(topic) >= SHORTEST]
        wanting.sort()
        holding = [(uses.get(topic, 0), topic) for topic in aliases]
        holding.sort(reverse=True)
        room = len(self._free)
        self._promoted = set()
        while wanting:
            count, topic = wanting.pop()
            if room:
                room -= 1
            elif holding and holding[-1][0] < count:
                self._free.append(aliases.pop(holding.pop()[1]))
            else:
                break
            self._promoted.add(topic)
        self._uses = {}
        self._left = PERIOD
