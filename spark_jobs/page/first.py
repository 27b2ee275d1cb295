"""The first screen below the headline: five figures, and who is treated badly, why, and what to do about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.finding import Finding, Grade
from spark_jobs.page.findings import LESS, few_have, is_few, loud, named, takes_over
from spark_jobs.page.grids import Column, duration, grid, moment, name, words
from spark_jobs.page.groups import groups_lost, losing, with_slow_member
from spark_jobs.page.markup import Html, join, tag
from spark_jobs.page.remedies import case_of, filled
from spark_jobs.page.words import WORDS

MOST: Final = 5
"""Clients that the table has: the worst of each kind first."""


@dataclass(frozen=True)
class Tile:
    """A figure: as shown, what it is, and whether it is bad."""

    shown: str
    what: str
    is_bad: bool = False


def tiles(results: Sequence[Result]) -> list[Tile]:
    """Five figures of the last run; of two runs with those of the baseline."""
    of = [_tiles(result) for result in results]
    if len(of) == 1 or not all(of):
        return of[-1]
    before = formats.name(results[0].label, 16)
    return [Tile(new.shown, f"{new.what} ({before}: {old.shown})", new.is_bad) for old, new in zip(*of, strict=True)]


def _tiles(result: Result) -> list[Tile]:
    total = result.maybe("totals", qos="all")
    if total is None:
        return []
    fair = result.maybe("fairness", scope="all", qos="all") or {}
    starved = (result.maybe("starvation", length="all") or {}).get("clients", 0)
    poor = fair.get("poorly_served", 0)
    bad = not is_few(result)
    of_groups = groups_lost(result)
    also = f"; {formats.short(of_groups)} of these by groups" if of_groups else ""
    return [
        Tile(formats.count(starved), f"of {result.facts.clients:,} clients starved", bad and starved > 0),
        Tile(formats.count(poor), f"sent less than {LESS} of what was due", bad and poor > 0),
        Tile(formats.percent(total["delivery_ratio"]), f"sent of {formats.short(total['due'])} due"),
        Tile(formats.short(total["lost"] + of_groups), f"dropped for clients that were there{also}", of_groups > 0),
        Tile(formats.index(fair.get("jain_delivery_ratio")), "Jain’s fairness index (1 = all equal)"),
    ]


@dataclass(frozen=True)
class Treated:
    """A client that is treated badly, or treats others so."""

    finding: str
    row: Row
    state: str
    case: str = ""
    cause: str = ""
    blamed: str = ""
    since_us: int | None = None
    lost: int | None = None


_COLUMNS: Final = (
    words("client", lambda row: tag("a", name(row["client_id"]), href=f"#{WORDS['shown'][row['finding']]}")),
    words("broker", "broker", name),
    words("state", "state", wrap=True),
    Column("lost", "lost", title="deliveries dropped while it was there; of who was away what it missed"),
    Column("since", "since_us", moment),
    words("cause", "cause", wrap=True),
    words("what to do", "action", wrap=True),
)


def people(result: Result) -> Html:
    """The table; nothing if nobody is treated badly."""
    return grid("first", "Who to look at, why, and what to do", _COLUMNS, list(_rows(result)))


def _rows(result: Result) -> Iterator[Row]:
    worst = {_key(row): row for row in result.rows_of("worst_sessions")}
    lost = {_key(row): row["lost"] for row in result.rows_of("dropped_clients")}
    rest = 0 if sum(lost.values()) == (result.maybe("totals", qos="all") or {}).get("lost") else None
    for each in _chosen(result):
        row = worst.get(_key(each.row), {}) | each.row
        case = each.case or case_of(each.row if "window_limit" in each.row else row)
        text = filled(WORDS["actions"].get(case, ""), row) or WORDS["actions"]["unknown"]
        client = "" if result.facts.hashed else each.blamed or row["client_id"]
        command = Finding(Grade.WATCH, each.finding, "", client=client).command
        yield {
            "client_id": row["client_id"],
            "broker": row["broker"],
            "finding": each.finding,
            "state": each.state,
            "lost": lost.get(_key(row), rest) if each.lost is None else each.lost,
            "since_us": each.since_us,
            "cause": each.cause or WORDS["causes"].get(case) or formats.reason(case) or WORDS["causes"]["unknown"],
            "action": join([text, " ", tag("code", command, class_="copy")]),
        }


def _key(row: Row) -> tuple[str, str]:
    return row["broker"], row["client_id"]


def _chosen(result: Result) -> list[Treated]:
    """The first of each kind, then the second and so on, in the order of the kinds; nobody twice."""
    kinds = (
        _starved(result),
        _less(result),
        _drops(result),
        _groups(result),
        _slow_members(result),
        _fights(result),
        _publisher(result),
        _away(result),
    )
    found: dict[tuple[str, str], Treated] = {}
    for each in chain.from_iterable(zip_longest(*kinds)):
        if each is not None and len(found) < MOST:
            found.setdefault(_key(each.row), each)
    subjects = [kind[0].finding for kind in kinds if kind]
    return sorted(found.values(), key=lambda each: subjects.index(each.finding))


def _starved(result: Result) -> list[Treated]:
    return [
        Treated("Starved", row, f"starved for {duration(row['longest_us'])}", since_us=row["longest_start_us"])
        for row in result.rows_of("starved_worst")
    ]


def _less(result: Result) -> list[Treated]:
    since: dict[tuple[str, str], int] = {}
    for row in result.rows_of("worst_hours"):
        if _is_poor(row):
            since[_key(row)] = max(min(row["hour_us"], since.get(_key(row), row["hour_us"])), result.facts.first_us)
    rows = [row for row in result.rows_of("worst_sessions") if _is_poor(row)]
    drops = {_key(each.row): f", {each.state}" for each in _drops(result)}
    return [
        Treated("Served less", row, f"sent {formats.percent(row['delivery_ratio'])} of due{drops.get(_key(row), '')}",
                since_us=since.get(_key(row)))
        for row in rows
    ]  # fmt: skip


def _is_poor(row: Row) -> bool:
    """Whether less was sent than was due; a client to which nothing was due has no ratio."""
    return row["delivery_ratio"] is not None and row["delivery_ratio"] < WELL_SERVED


def _drops(result: Result) -> list[Treated]:
    rows = result.rows_of("dropped_clients")
    return [
        Treated("Dropped", row, f"has {formats.percent(row['share_of_lost'])} of all drops")
        for row in rows[: few_have(result, rows)]
    ]


def _groups(result: Result) -> list[Treated]:
    """Groups, with their names in place of client ids."""
    return [
        Treated("Group", {**row, "client_id": row["share_group"]}, f"a group of {row['members']:,}",
                "group_full" if row["why"] == "queue_full" else row["why"], lost=row["lost"])
        for row in losing(result)
    ]  # fmt: skip


def _slow_members(result: Result) -> list[Treated]:
    why = {(*_key(row), row["share_group"]): row["why"] for row in result.rows_of("group_members")}
    found = []
    for group in with_slow_member(result):
        row = {"broker": group["broker"], "client_id": group["slowest"]}
        state = f"blocked for {formats.percent(group['slowest_share'])} of its time, unlike others of its group"
        cause = formats.reason(why[(*_key(row), group["share_group"])])
        found.append(Treated("Slow member", row, state, "slow_member", cause))
    return found


def _fights(result: Result) -> list[Treated]:
    found = []
    for row in result.rows_of("reconnecting_clients"):
        case = "taken_over" if takes_over(row) else "reconnects"
        state = f"began {row['begun']:,} sessions in {duration(row['last_us'] - row['first_us'])}"
        found.append(Treated("Reconnects", row, state, case, since_us=row["first_us"]))
    return found


def _publisher(result: Result) -> list[Treated]:
    """The publishers that wait for room which one of them takes."""
    found = loud(result)
    if found is None:
        return []
    loudest, others = found
    told = f"publishes {formats.percent(loudest['share_of_received'])} of all messages"
    paced = [row for row in result.rows_of("publishers")[1:] if row["publish_paced_us"]]
    if not paced:
        return [Treated("Publisher", loudest, told, "loud", f"others were paced for {formats.seconds(others)}")]
    state, cause, blamed = "paced for {} as a publisher", f"{named(loudest)} {told}", loudest["client_id"]
    return [
        Treated("Publisher", row, state.format(duration(row["publish_paced_us"])), "loud", cause, blamed)
        for row in sorted(paced, key=lambda row: -row["publish_paced_us"])
    ]


def _away(result: Result) -> list[Treated]:
    return [
        Treated("Away", row, f"away for {formats.percent(1 - (row['connected_share'] or 0))} of its time", "away",
                lost=row["missed"])
        for row in result.rows_of("away_clients")
    ]  # fmt: skip
