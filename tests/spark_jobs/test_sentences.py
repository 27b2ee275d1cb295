"""What the report says about small inputs, from the broker's files to the sentences; each broker is one of them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import spark_jobs
from spark_jobs.measures.measure import measure
from spark_jobs.measures.result import Result
from spark_jobs.page import render
from spark_jobs.page.finding import Finding, Grade
from spark_jobs.page.findings import findings
from spark_jobs.page.verdict import headline
from spark_jobs.progress import Progress
from spark_jobs.sources import frames_of
from spark_jobs.store.store import Selection, open_store
from spark_jobs.thresholds import check
from tests.support.spark.compacting import Run
from tests.support.spark.metrics_files import Row, at, group_row, histogram, row, write_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

MINUTES = range(1, 6)
MEASURES = Path(spark_jobs.__file__).parent / "MEASURES.md"


def served(client: str, minute: float, sent: int = 100, **values: Any) -> Row:
    """A minute of a client to which 100 QoS 1 deliveries are offered."""
    return row(client, 60 * minute, 60, offered_qos1=100, sent_qos1=sent, **values)


def away() -> Iterable[Row]:
    """Ten clients get all; what is offered to a kept session waits, and what has no room is dropped."""
    for minute in MINUTES:
        yield from (served(f"there-{n}", minute) for n in range(10))
        waits = 100 * minute - 100
        yield served(
            "gone", minute, sent=0, connected=False, waiting_start_qos1=min(waits, 300),
            **({"dropped_qos1": 100, "dropped_queue_full_qos1": 100} if waits >= 300 else {}),
        )  # fmt: skip


def half_away() -> Iterable[Row]:
    """A client leaves in the middle of a minute, its queue fills; it comes back, and gets what waits."""
    yield from (served("steady", minute) for minute in MINUTES)
    yield served("back", 1)
    yield served("back", 2, sent=50, connected=False, connected_us=30_000_000)
    yield served("back", 3, sent=0, connected=False, waiting_start_qos1=50)
    yield served("back", 4, sent=220, waiting_start_qos1=150, connected_us=50_000_000)
    yield served("back", 5, sent=130, waiting_start_qos1=30)


def lossy() -> Iterable[Row]:
    """A client is away for a tenth of the time; while it is there it loses half, ten others lose nothing."""
    yield from (served(f"steady-{n}", minute) for minute in MINUTES for n in range(10))
    lost = {"dropped_qos1": 50, "dropped_queue_full_qos1": 50, "connected_us": 54_000_000}
    yield from (served("lossy", minute, sent=50, **lost) for minute in MINUTES)


def crowd() -> Iterable[Row]:
    """Three of fifty subscribers are starved and reconnect each minute, beside one-shot publishers."""
    for minute in MINUTES:
        yield from (served(f"sub-{n}", minute) for n in range(47))
        for n in range(3):
            since = at(60 * minute - 60)
            yield served(
                f"poor-{n}", minute, sent=0, session_started=since, dropped_qos1=100, dropped_queue_full_qos1=100
            )
        for n in range(100):
            began = {"session_started": at(60 * minute - 1), "connected": False, "ended": True}
            yield row(f"pub-{minute}-{n}", 60 * minute, 1, received_qos1=1, connected_us=5_000, **began)


def short() -> Iterable[Row]:
    """Exports each ten seconds, the last one half a minute after a full minute; one publisher comes for 1.6 ms."""
    for ten in range(1, 16):
        yield row("steady", 10 * ten, 10, offered_qos1=10_000, sent_qos1=10_000)
    blink = {"connected": False, "ended": True, "session_started": at(149), "received_qos1": 1}
    yield row("blink", 150, 1, connected_us=1_600, offered_qos1=1, sent_qos1=1, **blink)


def episodes() -> Iterable[Row]:
    """Of ten clients two are starved for ten minutes each, at noon and an hour and a half later."""
    for minute in range(1, 121):
        for n in range(10):
            starves = (n == 0 and minute <= 10) or (n == 1 and 90 < minute <= 100)
            lost = {"dropped_qos1": 100, "dropped_queue_full_qos1": 100} if starves else {}
            yield served(f"c-{n}", minute, sent=0 if starves else 100, **lost)


def full_window(**values: Any) -> Callable[[], Iterable[Row]]:
    """A client whose window is full half of the time is sent half of what is offered."""

    def story() -> Iterable[Row]:
        limits = {"window_limit": 20, "max_inflight": 20, "window_full_us": 30_000_000} | values
        for minute in MINUTES:
            yield served("steady", minute)
            yield served("held", minute, **{"sent": 50, "dropped_qos1": 50, "dropped_queue_full_qos1": 50} | limits)

    return story


def causes() -> Iterable[Row]:
    """One publisher has most messages while another is paced; two clients fight for an id."""
    for minute in MINUTES:
        yield row("loud", 60 * minute, 60, received_qos0=600)
        yield row("quiet", 60 * minute, 60, received_qos0=400, publish_paced_us=2_000_000)
        yield served("steady", minute)
        for n in range(60):
            began = at(60 * minute - 60 + n)
            yield row("shared", 60 * minute, 60 - n, session_started=began, connected_us=990_000, **LEFT)


def group() -> Iterable[Row]:
    """Of four members of a group one is slow, so a queue of the group overflows; nobody else misses anything."""
    name = "$share/workers/jobs"
    for minute in MINUTES:
        yield from (served(f"worker-{n}", minute, share_groups=[name], window_full_us=3_000_000) for n in range(3))
        blocked = {"offered_qos1": 20, "sent_qos1": 20, "window_full_us": 57_000_000}
        yield row("sleepy", 60 * minute, 60, share_groups=[name], **blocked)
        lost = {"dropped_qos1": 80, "dropped_queue_full_qos1": 80}
        yield group_row(name, 60 * minute, 60, offered_qos1=400, sent_qos1=320, **lost)


def many_groups() -> Iterable[Row]:
    """Groups whose queues overflow although no session is offered anything, and their members."""
    lost = {"offered_qos1": 80, "dropped_qos1": 80, "dropped_queue_full_qos1": 80}
    for minute in MINUTES:
        yield row("publisher", 60 * minute, 60, received_qos1=100)
        # It ends, and begins again within the interval.
        yield from (group_row("$share/twice/t", 60 * minute, 60, **lost) for _ in range(2))
        # More hang than a table lists; two are there for a moment.
        hung = {"share_groups": ["$share/hung/t"], "window_full_us": 60_000_000}
        yield from (row(f"hung-{n}", 60 * minute, 60, **hung) for n in range(25))
        yield from (row(f"pair-{n}", 60 * minute, 60, share_groups=["$share/pair/t"], window_full_us=59_000_000 * n)
                    for n in range(2))  # fmt: skip
    began = {"session_started": at(299.997), "share_groups": ["$share/pair/t"], "window_full_us": 3_000}
    yield row("brief", 300, 0.003, **began)


LEFT: dict[str, Any] = {"connected": False, "ended": True}
STORIES: dict[str, Callable[[], Iterable[Row]]] = {
    "away": away,
    "half-away": half_away,
    "lossy": lossy,
    "crowd": crowd,
    "short": short,
    "episodes": episodes,
    "causes": causes,
    "group": group,
    "groups": many_groups,
    "own": full_window(window_limit=2),
    "slow": full_window(ack_qos1_buckets=histogram([1_000] * 2 + [19_000] * 48)),
    "late": full_window(ack_qos1_buckets=histogram([90_000] * 50)),
    "stuck": full_window(sent=0, dropped_qos1=100, dropped_queue_full_qos1=100),
}


@dataclass(frozen=True)
class Report:
    """What the report of one broker says."""

    result: Result
    headline: str
    findings: dict[str, Finding]

    def text(self, subject: str) -> str:
        """A finding's sentences."""
        return plain(self.findings[subject].text)


def plain(text: str) -> str:
    """Without the special spaces."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")


@pytest.fixture(scope="module")
def store(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of all the brokers, compacted once."""
    folder = tmp_path_factory.mktemp("stories")
    rows = [made | {"broker": name} for name, story in STORIES.items() for made in story()]
    write_metrics(folder / "raw", rows)
    run(folder / "raw", folder / "store")
    return folder / "store"


@pytest.fixture(scope="module")
def report(spark: "SparkSession", store: Path) -> Callable[[str], Report]:
    """The report of a broker."""

    @cache
    def of(broker: str) -> Report:
        frames = frames_of(lambda _rows: spark, open_store(str(store)), Selection(broker=broker))
        result = measure(frames, "run", Progress(quiet=True))
        return Report(result, plain(headline([result])), {each.subject: each for each in findings(result)})

    return of


def test_who_was_away_is_nowhere_badly_served(report: Callable[[str], Report]) -> None:
    """In no index, ratio, headline, limit, curve or hour; what it missed is in a line of its own."""
    told = report("away")
    assert told.headline.startswith("No client was treated unfairly: each was sent at least 100 %")
    assert told.text("Away") == (
        "1 client missed 500 deliveries while it was not connected: 200 dropped, 300 still wait."
    )
    assert told.text("Dropped") == (
        "Nothing was dropped for clients that were there. 200 more were dropped for clients that were away."
    )
    assert told.findings["Dropped"].grade == Grade.GOOD
    limits: dict[str, float] = dict.fromkeys(
        ("jain_delivery_ratio", "lowest_delivery_ratio", "delivery_ratio", "jain_goodput"), 1
    )
    limits |= dict.fromkeys(("dropped_per_second", "starved_sessions", "starved_share", "gini_goodput"), 0)
    assert [each.measure for each in check(told.result, limits) if each.exceeded] == []
    for each in told.result.rows_of("fairness"):
        assert (each["jain_delivery_ratio"] or 1, each["poorly_served"]) == (1, 0), each
    assert told.result.one("hours")["jain_delivery_ratio"] == told.result.one("hours")["delivery_ratio"] == 1
    assert {each["jain_delivery_ratio"] for each in told.result.rows_of("timeline") if each["qos"] == "all"} == {1}
    assert {each["dropped_per_second"] for each in told.result.rows_of("timeline")} == {0}
    assert all(each["share"] == each["share_clients"] for each in told.result.rows_of("lorenz"))
    assert {each["delivery_ratio"] for each in told.result.rows_of("gate") if each["scope"] == "calm"} == {1, None}


def test_who_came_back_and_got_it_all_was_served_well(report: Callable[[str], Report]) -> None:
    """What waited meanwhile was sent in the end: nothing was missed, and nobody was served less."""
    told = report("half-away")
    assert told.headline.startswith("No client was treated unfairly: each was sent at least 100 %")
    assert "Away" not in told.findings


def test_loss_while_a_client_is_there_is_no_absence(report: Callable[[str], Report]) -> None:
    """Who is away now and then is poorly served by what it loses while it is there."""
    told = report("lossy")
    assert told.headline.startswith("1 client was sent less than 95 % of what was due")
    assert told.headline.endswith("because its queue was full.")


def test_the_denominator_counts_clients_that_can_be_served(report: Callable[[str], Report]) -> None:
    """Neither publishers nor reconnects; the index is the same in tile and plot."""
    told = report("crowd")
    assert told.headline.startswith("3 of 50 clients were starved")
    assert told.findings["Starved"].grade == Grade.UNFAIR
    assert "over 50 clients is 0.940" in told.text("Evenness")
    assert {each["jain_delivery_ratio"] for each in told.result.rows_of("timeline") if each["qos"] == "1"} == {0.94}
    assert told.result.one("hours")["jain_delivery_ratio"] == 0.94
    # There is only one broker.
    assert "Nearly all of them are of client id prefix “poor”." in told.text("Starved")


def test_rates_are_over_the_time_that_has_passed(report: Callable[[str], Report]) -> None:
    """The last slot is half a minute long; a client of 1.6 ms has no rate."""
    told = report("short")
    rates = [each["sent_per_second"] for each in told.result.rows_of("timeline") if each["qos"] == "1"]
    assert rates == [1000, 1000, pytest.approx(1000, abs=0.1)]
    assert [each["received_per_second"] for each in told.result.rows_of("publishers")] == [None]
    goodput = {each["client_id"]: each["goodput"] for each in told.result.rows_of("worst_sessions")}
    assert goodput == {"steady": 1000, "blink": None}


def test_episodes_are_told_and_no_envelope(report: Callable[[str], Report]) -> None:
    """Two episodes of ten minutes in two hours, not an hour and forty minutes; the finding has the times."""
    told = report("episodes")
    assert told.headline == (
        "2 of 10 clients were starved, in 2 episodes of 10 min (median), 16.7 % of the time, between 21 Nov 12:00 and "
        "13:40, mostly because their queues were full."
    )
    assert "Longest: “c-0” on “episodes”, for 10 min from 21 Nov 12:00 on" in told.text("Starved")
    found = told.findings["Starved"].to_json()
    assert (found["client"], found["broker"], found["count"]) == ("c-0", "episodes", 2)
    assert (found["from"], found["to"]) == ("2026-11-21T12:00:00+00:00", "2026-11-21T13:40:00+00:00")


@pytest.mark.parametrize(
    ("broker", "subject", "act", "keys"),
    [
        ("own", "Served less", "The limit is the client's own Receive Maximum, 2 now", []),
        ("slow", "Served less", "the later the client acknowledges: it handles messages slowly", []),
        ("stuck", "Starved", "in its window the client acknowledged nothing", ["session.slow_consumer"]),
        ("late", "Served less", "session.max_inflight, 20 now. If the client acknowledges late, set it to 40;",
         ["session.max_inflight"]),
    ],
)  # fmt: skip
def test_the_advice_about_a_full_window_is_about_who_fills_it(
    report: Callable[[str], Report], broker: str, subject: str, act: str, keys: list[str]
) -> None:
    """A larger session.max_inflight is advised only where that is the limit, and would help: with its value now."""
    found = report(broker).findings[subject]
    assert act in found.act
    assert [knob.key for knob in found.knobs] == keys


def test_causes_are_findings(report: Callable[[str], Report]) -> None:
    """Who publishes most while others are paced, who fights for an id, and who has nearly all of the drops."""
    told = report("causes")
    assert told.text("Publisher") == (
        "“loud” on “causes” published 60.0 % of all messages (3,000), while others were paced for 10 s in total."
    )
    assert told.text("Reconnects") == (
        "“shared” on “causes” began 300 sessions in 4.98 min from 21 Nov 12:00 on: two clients seem to use this id, "
        "and each takes it over from the other."
    )
    assert {name: told.findings[name].client for name in ("Publisher", "Reconnects")} == {
        "Publisher": "loud",
        "Reconnects": "shared",
    }
    assert told.headline == told.text("Publisher")  # nobody was served badly
    drops = report("lossy")
    assert "1 client has 100 % of them: “lossy” on “lossy”." in drops.text("Dropped")
    assert drops.findings["Dropped"].client == "lossy"


def test_a_group_has_a_row_and_so_have_its_members(report: Callable[[str], Report]) -> None:
    """What a group lost is the headline where all is well otherwise; its slow member is named."""
    told = report("group")
    assert told.text("Group") == (
        "Groups lost 400 deliveries. Most: “$share/workers/jobs” on “group” with 400; the most frequent reason: mqueue "
        "full."
    )
    assert told.headline == told.text("Group")
    assert told.text("Slow member") == (
        "“sleepy” was blocked for 95.0 % of its time, most of the 4 members of “$share/workers/jobs” on “group” for at "
        "most 5.00 %."
    )
    assert (told.findings["Slow member"].client, told.findings["Slow member"].broker) == ("sleepy", "group")
    assert "Dropped" not in told.findings
    [whole] = told.result.rows_of("groups")
    assert {name: whole[name] for name in ("members", "offered", "sent", "lost", "slowest", "why")} == {
        "members": 4, "offered": 2000, "sent": 1600, "lost": 400, "slowest": "sleepy", "why": "queue_full"
    }  # fmt: skip
    members = told.result.rows_of("group_members")
    assert [(row["client_id"], row["sent"], row["share_of_sent"], row["why"]) for row in members] == [
        ("sleepy", 100, 0.0625, "window_full"), *((f"worker-{n}", 500, 0.3125, "window_full") for n in range(3))
    ]  # fmt: skip
    assert told.result.one("totals", qos="all")["offered"] == 1600
    assert [each.measure for each in check(told.result, {"groups_lost": 399}) if each.exceeded] == ["groups_lost"]
    nothing = report("lossy").result
    assert (nothing.rows_of("groups"), nothing.one("queues")["groups"]) == ([], 0)


def test_groups_that_begin_again_hang_or_have_brief_members(report: Callable[[str], Report]) -> None:
    """All rows of an interval count; nothing is well where only groups lost; who was there for a moment is not slow."""
    told = report("groups")
    assert told.headline.startswith("Groups lost 800 deliveries. Most: “$share/twice/t” on “groups” with 800;")
    assert told.text("Slow member") == (
        "“pair-1” was blocked for 98.3 % of its time, the other member of “$share/pair/t” on “groups” for at most 0 %."
    ).replace("the other member", "most of the 3 members")
    slowest = {row["share_group"]: row["slowest"] for row in told.result.rows_of("groups")}
    assert slowest == {"$share/twice/t": None, "$share/pair/t": "pair-1", "$share/hung/t": "hung-0"}
    assert "pair-1" in render([told.result])


HEAD = "| client | broker | state | lost | since | cause | what to do |"
ANSWERS = MEASURES.read_text().partition(HEAD)[2].partition("\n\n")[0].splitlines()[2:]
assert len(ANSWERS) == 7


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_first_screen_says_who_why_and_what_to_do(report: Callable[[str], Report], answer: str) -> None:
    """A row of the table in the documents is one of the page, before anything that is folded."""
    told = report(answer.split("|")[2].strip())
    screen = plain(unescape(render([told.result]).partition("<main>")[2].partition("<section>")[0]))
    assert told.headline in screen
    rows = [re.findall("<t[hd].*?>(.*?)</t[hd]>", row) for row in screen.split("<tr>")]
    lines = [re.sub("<.*?>", "", f"| {' | '.join(cells)} |") for cells in rows]
    assert lines[1] == HEAD
    assert answer.replace("`", "") in lines[2:]
