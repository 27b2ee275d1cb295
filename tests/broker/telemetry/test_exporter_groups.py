"""Rows of groups of shared subscriptions in the exported metrics (FC-13)."""

from typing import Final

import pytest
from structlog.testing import capture_logs

from broker.routing import shared_queues
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.exporting import Bench, send
from tests.support.broker.local import LocalClient
from tests.support.broker.metrics import check_books, group_rows, of_client, total

GROUP: Final = "$share/workers/jobs"
KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: 1000}


def one_at_a_time(bench: Bench, client_id: str, properties: Properties | None = None) -> LocalClient:
    """A member of the group that takes one delivery at a time."""
    client = bench.local.client()
    client.connect(client_id, properties={props.RECEIVE_MAXIMUM: 1, **(properties or {})})
    client.subscribe(GROUP, 1)
    return client


def test_members_and_group(bench: Bench) -> None:
    """A group has a row with what it was offered, handed over and what waits; its members' rows name the group."""
    member = one_at_a_time(bench, "member")
    member.subscribe("$share/others/else", 0)
    publisher = bench.client("publisher")
    for _ in range(3):
        send(publisher, "jobs", 1)
    bench.export()
    [group] = group_rows(bench.directory, GROUP)
    check_books([group])
    assert (group["offered_qos1"], group["sent_qos1"], group["waiting_qos1"]) == (3, 1, 2)
    assert (group["client_id"], group["connected"], group["mqueue_max"]) == ("", True, 2)
    [row] = of_client(bench.rows(), "member")
    assert (row["share_groups"], row["sent_qos1"]) == (["$share/others/else", GROUP], 1)
    assert [row["share_groups"] for row in of_client(bench.rows(), "publisher")] == [[]]


def test_intervals(bench: Bench) -> None:
    """The rows of a group add up from interval to interval; one in which nothing happened has none."""
    member = one_at_a_time(bench, "member")
    publisher = bench.client("publisher")
    for _ in range(3):
        send(publisher, "jobs", 1)
        bench.export()
    bench.export()
    member.send(Puback(member.expect(Publish).packet_id or 0))
    send(publisher, "jobs", 1)
    bench.export()
    rows = group_rows(bench.directory, GROUP)
    check_books(rows)
    assert [row["offered_qos1"] for row in rows] == [1, 1, 1, 1]
    assert [row["sent_qos1"] for row in rows] == [1, 0, 0, 1]
    assert [row["interval_start"] for row in rows[1:3]] == [row["interval_end"] for row in rows[:2]]


def test_drops(bench: Bench) -> None:
    """What the queue of a group drops is in the group's row, by reason; its totals go on over exports."""
    with (small := Bench(bench.directory, session={"max_mqueue_len": 2, "overflow_patience": 0})).local:
        one_at_a_time(small, "member")
        publisher = small.client("publisher")
        for _ in range(2):
            for _ in range(4):
                send(publisher, "jobs", 1)
            small.export()
        queue = small.local.broker.router.shared.queues[GROUP]
        totals = queue.totals(0)
    rows = group_rows(small.directory, GROUP)
    check_books(rows)
    assert [row["dropped_queue_full_qos1"] for row in rows] == [1, 4]
    assert (totals.offered, totals.sent, totals.dropped, totals.overflowed) == (8, 1, 5, 5)


def test_returned(bench: Bench) -> None:
    """What an ended member returns that it was handed in an earlier interval counts as offered again."""
    ends = one_at_a_time(bench, "ends")
    send(bench.client("publisher"), "jobs", 1)
    bench.export()
    one_at_a_time(bench, "waits", KEPT).drop()
    ends.drop()
    bench.export()
    rows = group_rows(bench.directory, GROUP)
    check_books(rows)
    assert [(row["offered_qos1"], row["sent_qos1"], row["waiting_qos1"]) for row in rows] == [(1, 1, 0), (1, 0, 1)]


def test_ended(bench: Bench) -> None:
    """A group that has ended has a last row with what was dropped; so do its members, with its name."""
    member = one_at_a_time(bench, "member")
    publisher = bench.client("publisher")
    for _ in range(3):
        send(publisher, "jobs", 1)
    member.drop()
    bench.export()
    bench.export()
    [group] = group_rows(bench.directory, GROUP)
    check_books([group])
    assert (group["ended"], group["connected"], group["dropped_session_ended_qos1"]) == (True, False, 2)
    [row] = of_client(bench.rows(), "member")
    assert (row["share_groups"], row["ended"]) == ([GROUP], True)


@pytest.mark.once  # in compiled code the constant is a number
def test_too_many_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many groups that end between two exports some are lost, which is logged and counts as a failure."""
    monkeypatch.setattr(shared_queues, "MOST_ENDED", 1_500)
    publisher = bench.client("publisher")
    for number in range(3):
        member = bench.local.client()
        member.connect(f"member{number}")
        member.subscribe(f"$share/g{number}/jobs")
        send(publisher, "jobs")
        member.drop()
    with capture_logs() as logs:
        bench.export()
    assert [log["rows"] for log in logs if log["event"] == "metrics_lost"] == [2]
    assert bench.exporter.failures == 1
    assert total(group_rows(bench.directory, "$share/g0/jobs"), "offered_qos0") == 1
