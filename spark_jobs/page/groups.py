"""Groups of shared subscriptions on the page: their section, and the findings about them (FC-13)."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.finding import Finding, Grade
from spark_jobs.page.grids import BROKER, ID, Column, name, of_run, of_runs, share, time, words
from spark_jobs.page.markup import Section

SLOW: Final = 0.5
"""A member that is blocked for this share of its time is slow, if most of its group are not."""
_QUICK: Final = 0.1  # the same of those that are not
_LONGEST: Final = 48  # letters of a group's name

_GROUP: Final = words("group", "share_group", name)
_BLOCKED: Final = "of its time: window full, rate used up or path congested"
_GROUPS: Final = (
    _GROUP, Column("members"), Column("offered"), Column("sent", title="handed to members"),
    Column("dropped", "lost", title="without what was dropped because no member was there"),
    words("why", "why", formats.reason), Column("mqueue max", "mqueue_max"),
    time("paced", "paced_for_us", title="how long publishers were paced for it"), words("slowest", "slowest", name),
    share("blocked", "slowest_share", title=f"the slowest member, {_BLOCKED}"),
    share("usual", "usual_share", title="the median of the members"), BROKER,
)  # fmt: skip
_MEMBERS: Final = (
    ID, _GROUP, share("blocked", "blocked_share", title=_BLOCKED), words("why", "why", formats.reason),
    Column("sent", title="to the member, also of its other subscriptions"),
    share("share of all", "share_of_sent", title="of what all members were sent"), BROKER,
)  # fmt: skip


def named(row: Row) -> str:
    """A group and its broker."""
    return f"“{formats.name(row['share_group'], _LONGEST)}” on “{formats.name(row['broker'], _LONGEST)}”"


def groups_lost(result: Result) -> int:
    """How many deliveries all groups lost."""
    return (result.maybe("queues") or {}).get("groups_lost") or 0


def losing(result: Result) -> list[Row]:
    """The groups that lost deliveries, most first."""
    return [row for row in result.rows_of("groups") if row["lost"]]


def with_slow_member(result: Result) -> list[Row]:
    """The groups with one member that is blocked while most are not."""
    return [
        row
        for row in result.rows_of("groups")
        if (row["slowest_share"] or 0) >= SLOW and (row["usual_share"] or 0) <= _QUICK and row["members"] > 1
    ]


def findings(result: Result) -> list[Finding]:
    """What groups lost, and their slow members."""
    found = []
    if rows := losing(result):
        lost, worst = groups_lost(result), rows[0]
        text = (
            f"Groups lost {formats.counted(lost, 'delivery')}. Most: {named(worst)} with {worst['lost']:,}; the most "
            f"frequent reason: {formats.reason(worst['why'])}."
        )
        found.append(Finding(Grade.WATCH, "Group", text, worst["why"], broker=worst["broker"], count=lost))
    if rows := with_slow_member(result):
        worst = rows[0]
        others = "the other member" if worst["members"] == 2 else f"most of the {worst['members']:,} members"
        text = (
            f"“{formats.name(worst['slowest'])}” was blocked for {formats.percent(worst['slowest_share'])} of its "
            f"time, {others} of {named(worst)} for at most {formats.percent(worst['usual_share'])}."
        )
        client = "" if result.facts.hashed else worst["slowest"]
        grade = Grade.WATCH if worst["lost"] else Grade.NOTE
        found.append(Finding(grade, "Slow member", text, "", client, worst["broker"], count=len(rows)))
    return found


def groups_section(results: Sequence[Result]) -> Section:
    """The groups, and their members."""
    parts = (
        of_runs(results, "groups", "Groups of shared subscriptions", _GROUPS),
        of_runs(results, "group_members", "Their slowest members", _MEMBERS),
    )
    told = " ".join(f"{of_run(result, results)}{_sentence(result)}" for result in results)
    return Section("groups", "Shared subscriptions", told, parts)


def _sentence(result: Result) -> str:
    row = result.maybe("queues")
    if row is None or not row["groups"]:
        return "No client shared a subscription."
    lost = f"lost {formats.counted(row['groups_lost'], 'delivery')}" if row["groups_lost"] else "lost nothing"
    return f"{formats.counted(row['groups'], 'group')} {lost}."
