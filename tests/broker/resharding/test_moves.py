"""Sessions move to the journals of their new homes, whatever the number of workers was and is."""

import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cluster.cell import journal_of
from broker.cluster.slots import home_of
from broker.resharding.reshard import reshard
from broker.storage import message_record, records
from broker.storage.found import find, frames
from broker.storage.owner import Owner
from broker.storage.saved_message import SavedMessage, Target
from broker.storage.segments import Segments
from protocol.subscribe import Subscription
from tests.support.broker.resharded import Delivery, Kept, Read, read_journals, write_journal

pytestmark = pytest.mark.once

MEMORY = Path("/dev/shm")
"""The folder of the journals, if it exists: it is in memory, and syncs at once."""

filters = st.sampled_from(("t", "t/#", "+/u", "#"))
deliveries = st.builds(
    Delivery,
    st.binary(max_size=300),
    st.sampled_from((1, 2)),
    st.sampled_from((b"t", b"t/u")),
    packet_id=st.just(0),
    received=st.just(False),
    retain=st.booleans(),
    expires_at=st.sampled_from((0, 1 << 60)),
    identifiers=st.sampled_from((b"", b"\x0b\x07")),
    flow=st.integers(0, 3),
)


@st.composite
def sessions(draw: st.DrawFn, number: int) -> Kept:
    """A session with all that a journal may have of one; what is under way comes first."""
    waiting = draw(st.lists(deliveries, max_size=6))
    ids = draw(st.lists(st.integers(1, 0xFFFF), max_size=len(waiting), unique=True))
    for position, packet_id in enumerate(ids):
        received = waiting[position].qos == 2 and draw(st.booleans())
        waiting[position] = waiting[position]._replace(packet_id=packet_id, received=received)
    subscriptions = draw(st.lists(st.builds(Subscription, filters, st.integers(0, 2), st.booleans()), max_size=3))
    return Kept(
        f"client-{number}",
        waiting,
        subscriptions,
        draw(st.lists(st.integers(1, 0xFFFF), max_size=3, unique=True)),
        draw(st.sampled_from((0xFFFFFFFF, 3600))),
        draw(st.sampled_from((0, 1_000_000))),
        draw(st.sampled_from((None, Owner("user", frozenset(("role",)), "::1", "tls")))),
        draw(st.sampled_from((b"", b"gone"))),
        {each.topic_filter: b"t" for each in subscriptions[:1]},
    )


def by_name(directory: Path) -> dict[str, Read]:
    """All sessions, which have to be where their clients are at home."""
    kept, _ = read_journals(directory)
    found: dict[str, Read] = {}
    for cell, there in kept.items():
        for each in there:
            assert not cell or cell == home_of(each.name, len(kept))
            assert each.name not in found
            found[each.name] = each
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 12).flatmap(lambda count: st.tuples(*map(sessions, range(count)))), st.data())
def test_sessions_stay_as_they_are(there: tuple[Kept, ...], data: st.DataObject) -> None:
    """Through several numbers of workers and back each has its state and its messages, in their order."""
    retained = [Delivery(b"a", topic=b"r/1", expires_at=1 << 60), Delivery(b"b", 2, b"r/2")]
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None) as folder:
        directory = write_journal(Path(folder) / "journal", there, retained)
        before = by_name(directory)
        assert len(before) == len(there)
        for workers in (*data.draw(st.lists(st.integers(1, 6), max_size=3)), 4, 2, 3, 1):
            reshard(directory, workers)
            assert by_name(directory) == before
            _, known = read_journals(directory)
            assert len(known) == workers
            assert all(each == retained for each in known.values())
        assert {each.name for each in directory.iterdir()} <= {"journal.lock", "journal.readers", "segment-1"}


@pytest.mark.parametrize("workers", [2, 64])
def test_a_group_has_its_queue_at_its_home(tmp_path: Path, workers: int) -> None:
    """Its messages keep their order, wherever its members are."""
    shared = Subscription("$share/g/t", 1)
    members = [Kept(f"member-{number}", [], [shared]) for number in range(3)]
    waiting = [Delivery(b"%d" % number) for number in range(20)]
    left = Kept("$share/left/t", waiting[:3])
    directory = write_journal(tmp_path / "journal", [*members, Kept("$share/g/t", waiting), left])
    reshard(directory, workers)
    kept, _ = read_journals(directory)
    groups = {(cell, each.name): each.deliveries for cell, there in kept.items() for each in there if each.group}
    assert groups == {
        (home_of("$share/g/t", workers), "$share/g/t"): waiting,
        (home_of("$share/left/t", workers), "$share/left/t"): waiting[:3],
    }
    reshard(directory, 1)
    kept, _ = read_journals(directory)
    assert {each.name: each.deliveries for each in kept[0] if each.group} == {
        "$share/g/t": waiting,
        "$share/left/t": waiting[:3],
    }
    assert len(kept[0]) == 5


def test_sessions_of_bridges_are_in_their_homes(tmp_path: Path) -> None:
    """As those of clients: the cell that opens a bridge has its session."""
    bridges = [Kept(f"$bridge/b{number}", [Delivery(b"x")]) for number in range(8)]
    directory = write_journal(tmp_path / "journal", bridges)
    reshard(directory, 4)
    kept, _ = read_journals(directory)
    for cell in (1, 2, 3, 4):
        assert [each.name for each in kept[cell]] == [each.name for each in bridges if home_of(each.name, 4) == cell]


def test_a_message_for_many(tmp_path: Path) -> None:
    """It is written once for each cell, with those deliveries that are not done, wherever compaction has put it."""
    names = [f"c{number}" for number in range(12)]
    write_journal(tmp_path, [Kept(name) for name in names])

    def message(payload: bytes, delivery: int, sessions: range) -> bytes:
        targets = [Target(number, delivery, 1, False, b"", 0) for number in sessions]
        return message_record.moved(SavedMessage(0, False, "", targets, 1, False, b"t", b"", payload), False, targets)

    done = [records.done(number, [0]) for number in range(1, 7)]
    with closing(Segments(tmp_path)) as segments:
        assert segments.append([[message(b"first", 0, range(1, 13)), message(b"second", 1, range(1, 13))]])
        assert segments.append([[*done, message(b"first", 0, range(7, 10))]])
    reshard(tmp_path, 3)
    waits = {name: [own.payload for own in each.deliveries] for name, each in by_name(tmp_path).items()}
    assert waits == {
        name: [b"second"] if number < 6 else [b"first", b"second"] for number, name in enumerate(names)
    }
    for cell in (1, 2, 3):
        content = b"".join(content for _, content in frames(find(journal_of(tmp_path, cell))))
        assert content.count(b"second") == (cell in {home_of(name, 3) for name in names})
