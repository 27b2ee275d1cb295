"""What the dashboard says first: of all that may be dropped, slow, waiting or away at a time."""

from hypothesis import given
from hypothesis import strategies as st

from broker.admin.dashboard.findings import findings, number
from broker.admin.dashboard.moment import AwayRow, DroppingRow, Finding, Rates, SlowRow
from broker.admin.dashboard.sample import Sample
from broker.admin.rows import GroupRow

SECOND = 1_000_000


class Seen(Sample):
    """A walk that has seen what a test says."""

    def __init__(self, slow: int = 0, for_us: int = SECOND, dropping: int = 0, away: int = 0) -> None:
        super().__init__(lambda: 1)
        self.slow_count, self.away_count, self.away_len = slow, away, 1000 * away
        self._slow_rows = [slow_row(for_us) for _ in range(slow)]
        self._dropping_rows = [dropping_row() for _ in range(dropping)]

    def slow(self) -> list[SlowRow]:
        """So many that are slow for so long."""
        return self._slow_rows

    def dropping(self) -> list[DroppingRow]:
        """So many that are away, and of which deliveries are dropped."""
        return self._dropping_rows

    def away(self) -> list[AwayRow]:
        """So many that are away, with deliveries that wait for them."""
        return [AwayRow(client_id="gone", waiting=1000) for _ in range(self.away_count)]


def slow_row(for_us: int) -> SlowRow:
    """A session that is slow for so long."""
    return SlowRow(
        client_id="slow",
        waits_for="window",
        because="window full",
        advice="raise it",
        for_us=for_us,
        mqueue_len=1,
        mqueue_bytes=1,
        max_mqueue_len=0,
        window_len=1,
        window_limit=1,
        sent=0,
        dropped=0,
        paced=False,
    )


def dropping_row() -> DroppingRow:
    """A session whose client is away, and whose mqueue is full."""
    return DroppingRow(
        client_id="gone",
        connected=False,
        dropped=400,
        reason="queue_full",
        advice="it is away",
        mqueue_len=1000,
        max_mqueue_len=1000,
    )


def rates(**dropped: float) -> Rates:
    """Rates of a moment, by the reason of what is dropped."""
    others = {"received": 1, "sent": 1, "acknowledged": 1, "bytes_received": 1, "bytes_sent": 1}
    return Rates(**others, gated={}, dropped=dropped, bridges={})


def group(waiting: int) -> GroupRow:
    """A group in whose queue so many deliveries wait."""
    return GroupRow(
        group="$share/g/t", members=2, mqueue_len=waiting, mqueue_bytes=1, offered=1, sent=1, dropped=0, paced_for_us=0
    )


def sentence(finding: Finding) -> str:
    """The sentence as the page shows it, but for the reason of drops."""
    return finding.client_id + finding.text


def test_absent_clients_whose_deliveries_are_dropped() -> None:
    """456 drops a second for clients that are away come first, and nobody says that all is well."""
    found = findings(Seen(dropping=3, away=3), rates(queue_full=456.0), {"queue_full": 20_000}, [], 0)
    assert [each.kind for each in found] == ["dropped", "away"]
    assert sentence(found[0]) == "gone: 400 deliveries a second are dropped while it is away, 456 in all"
    assert (found[0].drops, found[0].advice) == ("queue_full", "it is away")
    assert sentence(found[1]) == "gone is away: 1,000 deliveries wait for it; 2 others are away too, 3,000 wait in all"


def test_a_burst_of_drops_is_said_for_a_minute() -> None:
    """What was dropped a moment ago is not forgotten with the next moment."""
    (found,) = findings(Seen(), rates(), {"queue_full": 1, "expired": 7}, [], 0)
    assert (found.kind, found.drops) == ("dropped", "expired")
    assert found.text == "8 deliveries were dropped in the last minute"


def test_drops_of_a_group() -> None:
    """What a group drops belongs to no session."""
    found = findings(Seen(), rates(group_queue_full=2.0), {"group_queue_full": 2}, [group(9)], 0)
    assert [each.kind for each in found] == ["dropped", "waits"]
    assert (found[0].text, found[0].drops) == ("2 deliveries a second are dropped", "group_queue_full")
    assert found[1].text == "Group $share/g/t: 9 deliveries wait for its 2 members"


def test_what_ends_with_a_session_comes_last() -> None:
    """What a session leaves behind does not hide a slow consumer, but all is not well."""
    found = findings(Seen(slow=2), rates(session_ended=20.0), {"session_ended": 20}, [], 0)
    assert [sentence(each) for each in found] == [
        "slow is slow: window full, and 1 other has a backlog",
        "20 deliveries were dropped in the last minute",
    ]


def test_all_is_well() -> None:
    """It is said if nothing waits and nothing is dropped, and for short backlogs less of it."""
    assert [sentence(each) for each in findings(Seen(), rates(), {}, [group(0)], 0)] == [
        "Nothing waits and nothing is dropped: what is offered is sent at once"
    ]
    assert [each.kind for each in findings(Seen(slow=1, for_us=1), rates(), {}, [], 0)] == ["brief"]
    assert [sentence(each) for each in findings(Seen(), None, {}, [], 0)] == ["Nothing waits"]


@given(
    slow=st.integers(0, 3),
    for_us=st.sampled_from([1, SECOND]),
    dropping=st.integers(0, 3),
    away=st.integers(0, 3),
    known=st.booleans(),
    now=st.dictionaries(st.sampled_from(["queue_full", "expired", "session_ended"]), st.floats(0.1, 1e6)),
    lately=st.dictionaries(st.sampled_from(["queue_full", "expired", "session_ended"]), st.integers(1, 10**6)),
    waiting=st.integers(0, 3),
    full=st.integers(0, 3),
)
def test_the_order(
    slow: int,
    for_us: int,
    dropping: int,
    away: int,
    known: bool,
    now: dict[str, float],
    lately: dict[str, int],
    waiting: int,
    full: int,
) -> None:
    """Drops, slow sessions, what waits, who is away: in this order, and all is well only if there is none of it."""
    is_known = rates(**now) if known else None
    found = findings(Seen(slow, for_us, dropping, away), is_known, dict(lately), [group(waiting)], full)
    kinds = [each.kind for each in found if each.drops != "session_ended"]
    order = ["dropped", "slow", "waits", "away", "brief", "well"]
    assert kinds == sorted(kinds, key=order.index)
    well = not (slow or dropping or away or waiting or full or lately or (known and set(now) - {"session_ended"}))
    assert ([each.kind for each in found] == ["well"]) == well
    assert all(each.text and not each.text.endswith(".") for each in found)


def test_numbers() -> None:
    """Rates are as exact as one can read."""
    assert [number(rate) for rate in (0.25, 2.0, 9.94, 9.96, 456.4, 12_345.6)] == [
        "0.2",
        "2",
        "9.9",
        "10",
        "456",
        "12,346",
    ]
