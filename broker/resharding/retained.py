"""Which retained message of a topic counts, where the journals differ: each cell has all of them.

They are mostly the same. Else a message, or the end of one, is on its way to other cells: it is the newer one. If
nothing is, as after a cell was killed that had got it with QoS 0, what most journals have counts.
"""

from collections.abc import Iterator

from broker.resharding.old_journal import OldJournal, RetainedPlace
from broker.resharding.unrouted import Unrouted


def newest(journals: list[OldJournal], unrouted: Unrouted) -> Iterator[tuple[OldJournal, RetainedPlace]]:
    """The retained messages that count, in the order of their places."""
    chosen: dict[int, list[RetainedPlace]] = {}
    known: set[bytes] = set(unrouted.paged)
    for journal in journals:
        for topic in journal.retained:
            if topic not in known:
                known.add(topic)
                owner, place = _newest(topic, journals, unrouted)
                if place is not None:
                    chosen.setdefault(owner.number, []).append(place)
    for journal in journals:
        for place in sorted(chosen.get(journal.number, [])):
            yield journal, place


def _newest(topic: bytes, journals: list[OldJournal], unrouted: Unrouted) -> tuple[OldJournal, RetainedPlace | None]:
    found = [(journal, journal.retained.get(topic)) for journal in journals]
    digests = [b"" if place is None else place.digest for _, place in found]
    told = unrouted.told.get(topic, {})

    def rank(position: int) -> tuple[bool, int, bool, int]:
        own = digests[position]
        return told.get(found[position][0].number) == own, digests.count(own), own != b"", -position

    return found[max(range(len(found)), key=rank)]
