"""Answers of all cells as one, by their kinds: the overview, counts, a reload, and what all cells have alike."""

from collections.abc import Callable, Iterable
from typing import Any

from broker.admin.host.all_cells import CellAnswer, CellAnswers
from broker.admin.host.managed_host import AskedCell, ManagedHost
from broker.admin.host.merged_lists import IN_EVERY_CELL
from broker.runtime.clock import SECOND, monotonic_us

Merge = Callable[[list[CellAnswer]], Any]


def overview(host: ManagedHost, answers: CellAnswers) -> dict[str, Any]:
    """The host at a glance, with a row for each cell."""
    found = {each.cell: each.json for each in answers.done}
    reasons = unready(host, answers)
    merged: dict[str, Any] = {"broker": host.config.node_name}
    for key, value in next(iter(found.values()), {}).items():
        if type(value) is int:  # bool is one, too
            merged[key] = (max if key in IN_EVERY_CELL else sum)(own[key] for own in found.values())
        else:
            merged.setdefault(key, value)
    merged |= {"uptime_seconds": (monotonic_us() - host.started_us) // SECOND}
    merged |= {"ready": not reasons, "not_ready_because": reasons, "unanswered": answers.unanswered}
    merged["cells"] = [cell_row(each, answers.missing.get(each.number, ""), found) for each in host.cells]
    return merged


def cell_row(cell: AskedCell, missing: str, found: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """One cell; `missing`: why it has not answered. `found`: the overviews of those that have."""
    own = found.get(cell.number, {})
    return {
        "cell": cell.number,
        "pid": cell.pid,
        "ready": bool(own.get("ready")),
        "why": missing or "; ".join(own.get("not_ready_because", ())),
        "restarts": cell.restarts,
        "clients_connected": own.get("clients_connected"),
        "sessions": own.get("sessions"),
    }


def unready(host: ManagedHost, answers: CellAnswers) -> list[str]:
    """Why clients should not be sent to the host now, from overviews or answers of /ready."""
    if host.stopping:
        return ["the broker stops"]
    reasons = list(answers.unanswered)
    for each in (*answers.done, *answers.refused):
        own = each.json
        reasons += [f"cell {each.cell}: {why}" for why in own.get("not_ready_because", own.get("reasons", ()))]
    return reasons


def count(add: Callable[[Iterable[int]], int]) -> Merge:
    """How many items an action was about; `add`: `max` if each cell has all of them, or `sum`."""
    return lambda answers: {"count": add([each.json["count"] for each in answers])}


def reloaded(answers: list[CellAnswer]) -> dict[str, Any]:
    """What a reload has changed."""
    found = [each.json for each in answers]
    merged: dict[str, Any] = {}
    for key in ("changed", "renewed"):
        merged[key] = sorted({name for own in found for name in own[key]})
    merged["opened"] = _each_once(found, "opened")
    merged["closed"] = _each_once(found, "closed")
    merged["restart"] = {key: why for own in found for key, why in own["restart"].items()}
    return merged


def _each_once(found: list[dict[str, Any]], key: str) -> list[Any]:
    return each_once([item for own in found for item in own[key]])


def each_once(items: Iterable[Any]) -> list[Any]:
    """The items without those that are equal to an earlier one."""
    different: list[Any] = []
    for item in items:
        if item not in different:
            different.append(item)
    return different


def alike(answers: list[CellAnswer]) -> list[Any]:
    """A list that has what any cell has, each once."""
    return each_once(item for each in answers for item in each.json)


def one_of(answers: list[CellAnswer]) -> dict[str, Any]:
    """The answer of the only one that is meant, with its number."""
    return {**answers[0].json, "cell": answers[0].cell}
