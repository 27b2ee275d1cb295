"""What waits in links between cells, or in pages of addresses, comes to the clients that it was for."""

from pathlib import Path

import pytest

from broker.cluster.cell import journal_of
from broker.resharding.reshard import reshard
from broker.storage.errors import StorageError
from protocol.subscribe import Subscription
from tests.support.broker.cells import at_home
from tests.support.broker.resharded import Delivery, Kept, read_journals, write_journal

pytestmark = pytest.mark.once

ONE = next(at_home(1, name="one"))
TWO = next(at_home(2, name="two"))
ALL = Subscription("#", 2)


def cells(directory: Path, first: list[Kept], second: list[Kept]) -> Path:
    """The journals of two cells."""
    write_journal(journal_of(directory, 1), first)
    write_journal(journal_of(directory, 2), second)
    return directory


def came(directory: Path, workers: int = 3) -> dict[str, list[bytes]]:
    """What waits for each session then, by the client's name."""
    reshard(directory, workers)
    kept, _ = read_journals(directory)
    return {each.name: [own.payload for own in each.deliveries] for there in kept.values() for each in there}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_link_has_what_clients_of_the_other_cell_get(tmp_path: Path, workers: int) -> None:
    """CL-3: behind what waits for them already, in the order of the link, to those whose subscriptions match."""
    link = [Delivery(b"%d" % number, 1 + number % 2, b"t/%d" % (number % 3)) for number in range(30)]
    own = [Delivery(b"before", topic=b"t/0")]
    some = Kept(next(at_home(2, name="some")), [], [Subscription("t/1", 2)])
    first = [Kept("$cell/2", link, [ALL]), Kept(ONE, own, [ALL])]
    second = [Kept("$cell/1", [], [ALL]), Kept(TWO, own, [ALL]), some, Kept("$cell/1/x", [], [])]
    found = came(cells(tmp_path, first, second), workers)
    assert found == {
        ONE: [b"before"],
        TWO: [b"before", *(b"%d" % number for number in range(30))],
        some.name: [b"%d" % number for number in range(1, 30, 3)],
        "$cell/1/x": [],
    }


def test_what_the_other_cell_has_stored_does_not_come_again(tmp_path: Path) -> None:
    """At QoS 2: it has the packet id, or PUBREC has come. QoS 1 comes again."""
    link = [
        Delivery(b"known there", 2, packet_id=7),
        Delivery(b"known here", 2, packet_id=8, received=True),
        Delivery(b"not there", 2, packet_id=9),
        Delivery(b"once more", 1, packet_id=10),
        Delivery(b"waits", 2),
    ]
    first = [Kept("$cell/2", link, [ALL])]
    second = [Kept("$cell/1", [], [ALL], remembered=[7, 10, 11]), Kept(TWO, [], [ALL])]
    assert came(cells(tmp_path, first, second))[TWO] == [b"not there", b"once more", b"waits"]


def test_options_of_subscriptions(tmp_path: Path) -> None:
    """[MQTT-3.3.4-2, -3]: one delivery with the highest QoS and all identifiers; RETAIN if it is as published."""
    both = [Subscription("t", 1), Subscription("+", 2, False, True), Subscription("x", 2)]
    both[0].identifiers, both[1].identifiers = b"\x0b\x01", b"\x0b\x02"
    link = [Delivery(b"x", 2, retain=True), Delivery(b"y", 1)]
    second = [Kept(TWO, [], both), Kept(next(at_home(2, name="zero")), [], [Subscription("#", 0)])]
    reshard(cells(tmp_path, [Kept("$cell/2", link, [ALL])], second), 1)
    kept, _ = read_journals(tmp_path)
    (one, zero) = kept[0]
    assert [own[1:] for own in one.deliveries] == [
        Delivery(b"x", 2, retain=True, identifiers=one.deliveries[0].identifiers)[1:],
        Delivery(b"y", 1, identifiers=one.deliveries[0].identifiers)[1:],
    ]
    assert sorted((one.deliveries[0].identifiers[:2], one.deliveries[0].identifiers[2:])) == [b"\x0b\x01", b"\x0b\x02"]
    assert zero.deliveries == []


def test_each_overlapping_subscription(tmp_path: Path) -> None:
    """With `overlapping_subscriptions: each` there is one delivery for each."""
    second = [Kept(TWO, [], [ALL, Subscription("t", 1)])]
    cells(tmp_path, [Kept("$cell/2", [Delivery(b"x", 2), Delivery(b"y", 2)], [ALL])], second)
    reshard(tmp_path, 1, merge=False)
    kept, _ = read_journals(tmp_path)
    assert sorted((own.payload, own.qos) for own in kept[0][0].deliveries) == [
        (b"x", 1),
        (b"x", 2),
        (b"y", 1),
        (b"y", 2),
    ]
    assert [own.payload for own in kept[0][0].deliveries] == [b"x", b"x", b"y", b"y"]


@pytest.mark.parametrize("workers", [2, 5])
def test_pages_of_an_address(tmp_path: Path, workers: int) -> None:
    """FC-26: they are routed, as several workers have no `addresses`: also to groups, by No Local, and retained."""
    pages = [Delivery(b"1", retain=True, publisher="own"), Delivery(b"2", 2, retain=True), Delivery(b"3")]
    own = Kept("own", [Delivery(b"0")], [Subscription("t", 2, no_local=True)])
    member = Kept("member", [], [Subscription("$share/g/+", 1)])
    group = Kept("$share/g/+", [Delivery(b"before")])
    kept = [own, member, Kept("other", [], [Subscription("other", 2)]), group, Kept("pages/t", pages)]
    write_journal(tmp_path, kept, [Delivery(b"older", topic=b"t")])
    found = came(tmp_path, workers)
    assert found == {
        "own": [b"0", b"2", b"3"],
        "member": [],
        "other": [],
        "$share/g/+": [b"before", b"1", b"2", b"3"],
    }
    _, retained = read_journals(tmp_path)
    assert [[each.payload for each in there] for there in retained.values()] == [[b"2"]] * workers


def test_what_waits_for_a_cell_that_is_gone(tmp_path: Path) -> None:
    """Without the journal of a cell that had clients nothing is moved: they would lose their sessions."""
    write_journal(journal_of(tmp_path, 1), [Kept("$cell/2", [], []), Kept("$cell/3", [], [ALL])])
    with pytest.raises(StorageError, match="cell 3, whose journal is not there"):
        reshard(tmp_path, 2)
    assert [each.name for each in tmp_path.iterdir()] == ["cell-1"]


def test_a_first_start_that_was_killed(tmp_path: Path) -> None:
    """A cell that has never served left no journal behind: the others go on."""
    write_journal(journal_of(tmp_path, 1), [Kept("$cell/2", [], []), Kept(ONE, [Delivery(b"x")])])
    write_journal(journal_of(tmp_path, 3), [Kept("$cell/2", [], [])])
    assert came(tmp_path, 3) == {ONE: [b"x"]}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cell-1", "cell-2", "cell-3"]
