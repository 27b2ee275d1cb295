"""The verdict: who was treated unfairly, since when, and why; and what changed."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.comparison.compare import AMBIGUOUS, SIGNIFICANT, TOO_LITTLE
from spark_jobs.measures.hashing import hashed
from spark_jobs.measures.result import Result
from spark_jobs.metrics import CLOCKS
from spark_jobs.page.differences import changes
from spark_jobs.page.finding import Finding, Grade
from spark_jobs.page.findings import findings
from spark_jobs.page.verdict import headline, sentences
from spark_jobs.page.words import WORDS
from tests.support.spark.sample_result import replaced, sample_comparison, sample_result, without
from tests.support.spark.sample_story import HOUR, TROUBLE

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def result() -> Result:
    """A day on which fourteen sessions are starved."""
    return sample_result()


@pytest.fixture(scope="module")
def both() -> list[Result]:
    """A baseline, and a day that is better."""
    return sample_comparison()


def plain(text: str) -> str:
    """Without the special spaces."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")


def with_rows(result: Result, name: str, **values: Any) -> Result:
    """The result with other values in every row of a table."""
    rows = [{key: value for key, value in row.items() if key != "run"} | values for row in result.rows_of(name)]
    return replaced(result, name, rows)


def with_first(result: Result, name: str, **values: Any) -> Result:
    """The result with only the first row of a table, with other values."""
    row = {key: value for key, value in result.rows_of(name)[0].items() if key != "run"}
    return replaced(result, name, [row | values])


def told(result: Result) -> dict[str, str]:
    """The findings by their subjects."""
    texts: dict[str, str] = {}
    for finding in findings(result):
        texts[finding.subject] = texts.get(finding.subject, "") + plain(finding.text)
    return texts


def test_who_since_when_and_why(result: Result) -> None:
    """The headline says how many were starved, from when to when, and why."""
    assert plain(headline([result])) == (
        "14 of 20,000 clients were starved from 21 Nov 14:10 to 20:00, mostly because their windows were full."
    )
    assert [finding.grade for finding in findings(result)[:2]] == [Grade.UNFAIR, Grade.UNFAIR]
    text = told(result)["Starved"]
    assert "Longest: “meter/" in text
    assert "for 42 min" in text
    assert "Why, for 12 of the 14 worst: their windows were full, a sign of late acknowledgement." in text


def test_a_reason_of_few_is_not_that_of_all(result: Result) -> None:
    """Without a reason of more than half, each is told with its number, and no key is named."""
    first = {key: value for key, value in result.rows_of("starved_worst")[0].items() if key != "run"}
    whys = ["window_full", "", "backlog", "congested", "congested", ""]
    mixed = replaced(result, "starved_worst", [first | {"why": why} for why in whys])
    found = next(each for each in findings(mixed) if each.subject == "Starved")
    assert found.text.endswith(
        " There is no single reason for the 6 worst: for 2 their send paths were congested, for 1 its window was full "
        "and for 3 the metrics show none."
    )
    assert found.knobs == []
    most = replaced(result, "starved_worst", [first | {"why": why} for why in [*whys, *["congested"] * 5]])
    found = next(each for each in findings(most) if each.subject == "Starved")
    assert "Why, for 7 of the 11 worst: their send paths were congested" in found.text
    assert [knob.key for knob in found.knobs] == ["session.slow_consumer"]


def test_one_starved_session_is_told_in_the_singular(result: Result) -> None:
    """One session was starved because its path was congested."""
    one = with_first(result, "starved_worst", why="congested")
    one = with_first(one, "starvation", clients=1)
    assert "1 of 20,000 clients was starved from 21 Nov 14:10 to 20:00, because its" in plain(headline([one]))
    assert "its send path was congested, a sign of a slow client or network" in told(one)["Starved"]


def test_few_sessions_do_not_make_a_day_unfair(result: Result) -> None:
    """One starved session of 20,000 is named, but not graded as unfair, and the headline begins with the others."""
    one = with_first(result, "starvation", clients=1)
    fed = with_first(with_rows(without(one, "worst_sessions"), "fairness", poorly_served=0), "starved_worst")
    assert headline([fed]).startswith("Nearly all clients were served well: 1 of 20,000 clients was starved")
    assert max(finding.grade for finding in findings(fed)) == Grade.WATCH


def test_all_poorly_served_sessions_are_counted(result: Result) -> None:
    """More than the worst that are listed: their share of the sessions decides the grade, not that of the list."""
    many = with_rows(with_rows(result, "starvation", clients=0), "fairness", poorly_served=1_234)
    assert plain(headline([many])).startswith("1,234 clients were sent less than 95 %")
    assert next(each.grade for each in findings(many) if each.subject == "Served less") == Grade.UNFAIR
    few = with_rows(many, "fairness", poorly_served=9)
    assert next(each.grade for each in findings(few) if each.subject == "Served less") == Grade.WATCH


def test_drops_and_order_are_graded_by_share(result: Result) -> None:
    """A few QoS 1 of millions, and one session of 20,000, are a note; one in a thousand is to be watched."""
    grades = {finding.subject: finding.grade for finding in findings(with_rows(result, "totals", dropped=7, lost=7))}
    assert grades["Dropped"] == grades["Order"] == Grade.NOTE
    worse = with_rows(with_rows(result, "totals", dropped=1_000, lost=1_000, due=1_000_000), "inversion", clients=20)
    grades = {finding.subject: finding.grade for finding in findings(worse)}
    assert grades["Dropped"] == grades["Order"] == Grade.WATCH


def all_findings(result: Result) -> list[Finding]:
    """Findings with every reason, about who was away, and about invalid input."""
    reasons = [row["reason"] for row in result.rows_of("reasons") if row["what"] == "dropped"]
    states = [*CLOCKS, "queue_full_paced", "offline", "", *reasons]
    of_reasons = [each for why in states for each in findings(with_rows(result, "starved_worst", why=why))]
    loud = with_rows(with_rows(result, "totals", missed=9), "publishers", share_of_received=0.6)
    return [*of_reasons, *findings(with_rows(loud, "books", rows_off=3))]


def test_every_finding_says_what_to_do(result: Result) -> None:
    """A sentence, keys of the configuration, a command, a definition on the page, and a section of MEASURES.md."""
    headings = {
        re.sub(r"[^\w\- ]", "", line.removeprefix("## ").lower()).replace(" ", "-")
        for line in (files("spark_jobs") / "MEASURES.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("## ")
    }
    for finding in all_findings(result):
        assert finding.see.removeprefix("MEASURES.md#") in headings, finding.see
        assert finding.definition in WORDS["definitions"], finding.subject
        assert finding.to_json()["grade"] in {"good", "note", "watch", "unfair"}
        if finding.grade > Grade.GOOD:
            assert finding.act, finding.subject
            assert finding.command.startswith("sluice "), finding.subject
            of_sessions = finding.subject in {"Starved", "Served less"}
            assert finding.knobs or finding.subject in {"Order", "Reconnects"} or of_sessions


def test_the_keys_exist() -> None:
    """Each key that a finding names is one of the configuration, and its rule is one of FLOW-CONTROL.md."""
    root = Path(__file__).parents[3]
    text = (root / "session" / "FLOW-CONTROL.md").read_text(encoding="utf-8")
    rules = re.findall(r"^\*\*(FC-\d+),", text, re.MULTILINE)
    known = yaml.safe_load((root / "config" / "default.yaml").read_text(encoding="utf-8")) | {"node_name": ""}
    for named in (*WORDS["knobs"].values(), *WORDS["knobs_by_reason"].values()):
        for each in named.split(", "):
            key, _, rule = each.partition(" ")
            at = known
            for part in key.split("."):
                assert part in at, key
                at = at[part]
            assert not rule or rule in rules, rule


def test_the_command_names_the_client_if_it_can_be_typed(result: Result) -> None:
    """The longest starved session, quoted; not an id with unprintable letters, a very long one, or a digest."""

    def command(client: str, *, hidden: bool = False) -> str:
        named = with_first(result, "starved_worst", client_id=client)
        of = hashed(named, "key") if hidden else named
        return next(each.command for each in findings(of) if each.subject == "Starved")

    assert command("pump-7") == "sluice ctl session pump-7"
    assert command("a b'; rm -rf /") == "sluice ctl session 'a b'\"'\"'; rm -rf /'"
    assert command("-rf") == "sluice ctl session -- -rf"  # no option
    for cannot in ("line\nend", "x" * 61, "\u202eabc"):
        assert command(cannot) == "sluice ctl session CLIENT"
    assert command("pump-7", hidden=True) == "sluice ctl session CLIENT"


def test_a_command_for_faults_of_the_input_helps_against_them(result: Result) -> None:
    """Only hours with missing rows are built again, and only these; damaged files are replaced and taken in."""
    row = {"count": 1, "example": "2026-11-21T12..2026-11-21T15", "words": ""}
    faults = [row | {"kind": kind} for kind in ("truncated", "clock", "damaged_hours")]
    found = [each for each in findings(replaced(result, "quality", faults)) if each.subject == "Input"]
    assert [(plain(each.text).split("; ")[0].partition(": ")[2], each.command) for each in found] == [
        (
            "1 hour with missing rows",
            "sluice compact --rebuild --from 2026-11-21T12 --to 2026-11-21T15 --metrics METRICS --store STORE",
        ),
        ("1 truncated file", "sluice compact --metrics METRICS --store STORE"),
        ("1 wrong clock", "sluice compact --metrics METRICS --store STORE"),
    ]
    assert "put whole copies in place of damaged ones" in found[1].act
    assert [[knob.key for knob in each.knobs] for each in found[:2]] == [["metrics.directory"]] * 2
    books = next(each for each in findings(with_rows(result, "books", rows_off=3)) if each.subject == "Counters")
    assert "--rebuild" not in books.command


def test_starvation_until_the_end(result: Result) -> None:
    """Starvation that lasts until the end of the range has no end."""
    going = with_rows(with_rows(result, "starvation", last_us=result.facts.last_us), "starved_worst", why="")
    assert "from 21 Nov 14:10 on, to the end" in headline([going])
    assert "The metrics show no reason" in told(going)["Starved"]


def test_hours_apart_are_no_envelope(result: Result) -> None:
    """Poorly served in the second hour and in three hours in the evening: two episodes, with their share of the day."""
    fed = with_rows(without(result, "starved_worst"), "starvation", clients=0)
    first = {key: value for key, value in fed.rows_of("worst_hours")[0].items() if key != "run"}
    hours = [first | {"hour_us": TROUBLE + hour * HOUR, "delivery_ratio": 0.5} for hour in (-13, 4, 5, 6)]
    said = plain(headline([replaced(fed, "worst_hours", hours)]))
    assert "due, in 2 episodes of 2 h (median), 16.7 % of the time, between 21 Nov 01:00 and 21:00, mostly" in said


def test_common_properties(result: Result) -> None:
    """A broker, listener or prefix that nearly all of them, but not nearly all clients, have."""
    assert "Nearly all of them are of listener “tls-8883”." in told(result)["Served less"]
    mixed = with_rows(result, "worst_sessions", broker="b1", listener="", client_prefix="meter")
    assert "Nearly all of them are of broker “b1” and client id prefix “meter”." in told(mixed)["Served less"]
    fairness = [{key: value for key, value in row.items() if key != "run"} for row in result.rows_of("fairness")]
    fairness += [row | {"scope": "broker", "name": "b1"} for row in fairness if row["scope"] == "all"]
    alone = replaced(mixed, "fairness", fairness)
    assert "Nearly all of them are of client id prefix “meter”." in told(alone)["Served less"]


def test_a_finding_names_client_broker_time_and_number(result: Result) -> None:
    """For people and for programs; what is not about clients has none."""
    [first, *_] = findings(result)
    worst = result.rows_of("starved_worst")[0]
    assert f"“{worst['client_id']}” on “{worst['broker']}”" in first.text
    found = first.to_json()
    assert (found["client"], found["broker"], found["count"]) == (worst["client_id"], worst["broker"], 14)
    assert (found["from"], found["to"]) == ("2026-11-21T14:10:00+00:00", "2026-11-21T20:00:00+00:00")
    pressure = next(each.to_json() for each in findings(result) if each.subject == "Pressure")
    assert [pressure[name] for name in ("client", "broker", "from", "to", "count")] == [None] * 5


def test_sessions_that_got_less_without_being_starved(result: Result) -> None:
    """Without starvation the headline names sessions with less than 95 %; their start is known by the hour."""
    fed = with_rows(without(result, "starved_worst"), "starvation", clients=0)
    assert plain(headline([fed])) == (
        "31 clients were sent less than 95 % of what was due from 21 Nov 14:00 to 20:00, "
        "mostly because their windows were full."
    )


def test_no_session_treated_unfairly(result: Result) -> None:
    """A fight for an id; equal, with the lowest share; unequal; nothing sent; nothing offered."""
    fair = with_rows(without(result, "starved_worst", "worst_sessions"), "starvation", clients=0)
    fair = with_rows(fair, "fairness", poorly_served=0)
    assert headline([fair]).startswith("“meter/82e0e3-237” on “broker-0.example.net” began 151 sessions")
    fair = without(fair, "reconnecting_clients")
    well = with_rows(fair, "fairness", jain_delivery_ratio=0.999, lowest_delivery_ratio=0.97)
    assert plain(headline([well])).startswith("No client was treated unfairly: each was sent at least 97.0 %")
    assert "Clients were treated unequally: Jain’s index is 0.969." in headline([fair])
    nothing = with_rows(fair, "fairness", jain_delivery_ratio=None)
    assert headline([nothing]) == "None of the offered deliveries was sent."
    assert headline([with_rows(result, "totals", offered=0)]) == "Nothing was offered to any client."


def test_other_findings(result: Result) -> None:
    """Order, drops by reason, pressure, and invalid input."""
    text = told(result)
    assert (
        text["Order"] == "12 QoS 0 deliveries overtook waiting QoS 1 or 2, in 1 client; the gate should prevent that."
    )
    assert text["Dropped"] == "2,764,800 deliveries, all of them at QoS 0; the most frequent reason: mqueue full."
    assert text["Pressure"].startswith("Sessions were under pressure for 6.54 % of their time.")
    assert "2 empty files" in text["Input"]
    off = with_rows(result, "books", rows_off=3)
    assert "do not reconcile in 3 of 28,800,000 rows" in told(off)["Counters"]
    harmless = with_first(result, "quality", kind="appears_once", count=9)
    assert "Input" not in told(harmless)
    lost = with_rows(result, "totals", dropped=7, lost=7)
    assert "14 of them at QoS 1 and 2" in told(lost)["Dropped"]


def test_what_changed_comes_first(both: list[Result]) -> None:
    """The headline has the largest significant gain and loss; the rest follows."""
    assert plain(headline(both)) == (
        "With gate on, starved clients fell from 14 to 0, but the 99th percentile of QoS 0 "
        "waiting rose from 350 µs to 2.4 ms."
    )
    assert [finding.subject for finding in changes(*both)] == ["Better", "Worse", "Unchanged"]
    lines = [plain(line) for line in sentences(both)]
    assert lines[0].startswith("Better: Jain’s index of the delivery ratio rose from 0.969 to 0.995; the 99th")
    assert lines[2] == "Unchanged: 2 measures do not differ significantly from gate off."
    assert lines[3].startswith("gate on, served less: 5 clients")


def test_without_significant_differences(both: list[Result]) -> None:
    """The headline says that no difference is significant."""
    same = with_rows(both[1], "comparison", verdict="not significant")
    assert headline([both[0], same]) == "gate on and gate off do not differ significantly."


def test_too_little_data(both: list[Result]) -> None:
    """A large difference in a short run is reported as untested."""
    short = with_rows(both[1], "comparison", verdict=TOO_LITTLE)
    assert headline([both[0], short]).endswith(" There is too little data to test that.")
    mixed = with_rows(both[1], "comparison", verdict=AMBIGUOUS)
    assert headline([both[0], mixed]).endswith("do not differ significantly.")
    assert changes(both[0], mixed) == []
    assert [finding.subject for finding in changes(both[0], short)] == ["Unproven"]


def test_a_change_that_is_neither_good_nor_bad(both: list[Result]) -> None:
    """A neutral difference is reported without a judgement."""
    neutral = with_rows(both[1], "comparison", better=None)
    assert headline([both[0], neutral]).startswith("With gate on, starved clients fell")


def test_invisible_differences(both: list[Result]) -> None:
    """A measure whose displayed values are the same does not fall from 103 to 103."""
    row = next(row for row in both[1].rows_of("comparison") if row["measure"] == "starved_sessions")
    same = {key: value for key, value in row.items() if key != "run"} | {"baseline": 103.0, "value": 103.0}
    for difference in (0.0, 1e-9):
        unmoved = replaced(both[1], "comparison", [same | {"difference": difference}])
        assert headline([both[0], unmoved]) == "gate on and gate off do not differ significantly."


def test_latency_leads_before_indices(both: list[Result]) -> None:
    """Latency comes before indices in the headline, even if an index has changed by a larger factor."""
    rows = [{k: v for k, v in row.items() if k != "run"} for row in both[1].rows_of("comparison")]
    kept = [row for row in rows if row["measure"] in ("ack_qos1_p99", "gini_goodput")]
    for row in kept:
        row["verdict"] = SIGNIFICANT
    kept[1] |= {"baseline": 0.4, "value": 0.01, "difference": -0.39}
    assert "QoS 1 acknowledgement" in headline([both[0], replaced(both[1], "comparison", kept)])


def test_backlog_is_not_a_reason(result: Result) -> None:
    """A backlog is an effect, so it is not reported as a reason."""
    queued = with_rows(result, "starved_worst", why="backlog")
    assert headline([queued]).endswith("20:00.")
    assert "The metrics show no reason" in told(queued)["Starved"]
