"""The moments of the dashboard: those of all cells as one."""

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from broker import __version__
from broker.admin.dashboard.findings import WELL, findings
from broker.admin.dashboard.moment import AwayRow, DroppingRow, Finding, Moment, Present, Rates, SlowRow
from broker.admin.dashboard.observer import MOST_BRIDGES
from broker.admin.dashboard.sample import ROWS
from broker.admin.host.asking import CellQuestion, NoAnswerError, asking
from broker.admin.host.managed_host import AskedCell, ManagedHost
from broker.runtime.clock import SECOND, monotonic_us, wall_us

STREAM: Final = "/api/v1/stream"

PATIENCE: Final = 5.0
"""Seconds for which a moment of a cell counts, and another one is waited for: a walk may take as long."""

LATE: Final = 30.0
"""Seconds after which a stream without a moment is given up."""

AGAIN: Final = 0.5
"""Seconds until a cell is asked again for its stream."""

_LISTS: Final[dict[str, tuple[Callable[[Any], Any], int]]] = {
    "dropping": (lambda row: -row.dropped, ROWS),
    "slow": (lambda row: -row.mqueue_len, ROWS),
    "away": (lambda row: -row.waiting, ROWS),
    "talkers": (lambda row: -row.received - row.sent, ROWS),
    "addresses": (lambda row: -row.size_bytes, ROWS),
    "groups": (lambda row: -row.mqueue_len, ROWS),
    "bridges": (lambda row: row.bridge, MOST_BRIDGES),
}
"""How the rows of each list are sorted, and how many there are."""

_RATES: Final = ("received", "sent", "acknowledged", "bytes_received", "bytes_sent")


class CellMoment(BaseModel):
    """One cell at one moment."""

    cell: int
    why: str = Field(description="Why it does not answer, or is not ready; empty = it is.")
    restarts: int
    connected: int | None
    sessions: int | None
    received: float | None = Field(description="PUBLISHes from clients, per second.")
    sent: float | None = Field(description="PUBLISHes to clients, per second.")


class HostMoment(Present):
    """The host at one moment: what a Moment has, and a row for each cell. Other rows say their cell."""

    model_config = ConfigDict(extra="allow")

    cells: list[CellMoment]
    rates: Rates | None
    findings: list[Finding]


class HostObserver:
    """Looks at all cells by their streams, while somebody looks."""

    def __init__(self, host: ManagedHost, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        """`headers`: with whom the cells are asked for."""
        self._host = host
        self._question = CellQuestion("GET", STREAM, headers)
        self._streams: list[asyncio.Task[None]] = []
        self._found: dict[int, tuple[float, Moment]] = {}
        """When the last moment of each cell came, and the moment."""
        self._why: dict[int, str] = {}
        self._news = asyncio.Event()

    def forget(self) -> None:
        """Nobody looks any more."""
        for task in self._streams:
            task.cancel()
        self._streams.clear()
        self._found.clear()
        self._why.clear()

    async def look(self) -> tuple[HostMoment, int]:
        """The host now, and how much time that has taken from it, in microseconds: the cells rest by themselves."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not self._streams:
            self._streams = [loop.create_task(self._follow(each)) for each in self._host.cells]
        while self._waits(began) and (left := began + PATIENCE - loop.time()) > 0:
            self._news.clear()
            try:
                async with asyncio.timeout(min(left, AGAIN)):
                    await self._news.wait()
            except TimeoutError:
                pass  # a cell may have begun to hang
        now = loop.time()
        return merged(self._host, {n: one for n, (at, one) in self._found.items() if at > now - PATIENCE}, self._why), 0

    def _waits(self, began: float) -> bool:
        """Whether a cell that can answer has not, since then."""
        return any(
            each.number not in self._why and not each.trouble() and self._found.get(each.number, (0.0, None))[0] < began
            for each in self._host.cells
        )

    async def _follow(self, cell: AskedCell) -> None:
        """Keep the last moment of a cell."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asking(cell, self._question, PATIENCE) as response:
                    if response.status != _OK:
                        raise NoAnswerError(f"refuses: {json.loads(await response.body())['detail']}")
                    async for event in response.events(LATE):
                        self._found[cell.number] = loop.time(), Moment.model_validate_json(event)
                        self._why.pop(cell.number, None)
                        self._news.set()
            except NoAnswerError as error:
                self._why[cell.number] = str(error)
                self._news.set()
                await asyncio.sleep(AGAIN)


_OK: Final = 200


class _Backlogs:
    """What the cells have seen, for the sentences about it."""

    def __init__(self, moments: list[Moment]) -> None:
        self.slow_count = sum(each.slow_count for each in moments)
        self.away_count = sum(each.away_count for each in moments)
        self.away_len = sum(each.away_len for each in moments)
        self._moments = moments

    def dropping(self) -> list[DroppingRow]:
        """Those of which most is dropped."""
        return _first(self._moments, "dropping")

    def slow(self) -> list[SlowRow]:
        """The longest backlogs."""
        return _first(self._moments, "slow")

    def away(self) -> list[AwayRow]:
        """Those for which most waits while they are away."""
        return _first(self._moments, "away")


def merged(host: ManagedHost, found: dict[int, Moment], why: dict[int, str]) -> HostMoment:
    """The moments of cells as one; `why`: why others have none."""
    moments = list(found.values())
    missing = {
        each.number: each.trouble() or why.get(each.number, f"has not answered within {PATIENCE:g} s")
        for each in host.cells
        if each.number not in found or each.trouble()
    }
    unanswered = [f"cell {number} {reason}" for number, reason in missing.items()]
    reasons = [f"cell {number}: {reason}" for number, own in found.items() for reason in own.not_ready_because]
    fields: dict[str, Any] = {key: sum(getattr(each, key) for each in moments) for key in _NUMBERS}
    fields |= {key: _rows(found, key) for key in _LISTS}
    fields |= {key: _summed(getattr(each, key) for each in moments) for key in ("waits_for", "dropped_lately")}
    rates = _rates([each.rates for each in moments if each.rates is not None])
    lately = dict(fields["dropped_lately"])
    sentences = findings(_Backlogs(moments), rates, lately, _first(moments, "groups"), fields["addresses_full"])
    if unanswered:
        told = [Finding(kind="cell", text=f"{each[:1].upper()}{each[1:]}") for each in unanswered]
        sentences = [*told, *(each for each in sentences if each.kind not in WELL)]
    return HostMoment(
        broker=host.config.node_name,
        version=__version__,
        time_us=wall_us(),
        uptime_seconds=(monotonic_us() - host.started_us) // SECOND,
        not_ready_because=["the broker stops"] if host.stopping else [*unanswered, *reasons],
        rates=rates,
        findings=sentences,
        cells=[_row(each, found.get(each.number), missing.get(each.number, "")) for each in host.cells],
        **fields,
    )


_NUMBERS: Final = {name for name, field in Moment.model_fields.items() if field.annotation is int} - {
    "time_us",
    "uptime_seconds",
}
"""What is added up."""


def _row(cell: AskedCell, own: Moment | None, missing: str) -> CellMoment:
    rates = None if own is None else own.rates
    return CellMoment(
        cell=cell.number,
        why=missing or ("" if own is None else "; ".join(own.not_ready_because)),
        restarts=cell.restarts,
        connected=None if own is None else own.connected,
        sessions=None if own is None else own.sessions,
        received=None if rates is None else rates.received,
        sent=None if rates is None else rates.sent,
    )


def _first(moments: list[Moment], key: str) -> list[Any]:
    order, most = _LISTS[key]
    return sorted((row for each in moments for row in getattr(each, key)), key=order)[:most]


def _rows(found: dict[int, Moment], key: str) -> list[dict[str, Any]]:
    order, most = _LISTS[key]
    rows = [(cell, row) for cell, each in found.items() for row in getattr(each, key)]
    rows.sort(key=lambda one: order(one[1]))
    return [{"cell": cell, **row.model_dump()} for cell, row in rows[:most]]


def _summed(given: Iterable[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        for key, value in each.items():
            found[key] = found.get(key, 0) + value
    return found


def _rates(given: list[Rates]) -> Rates | None:
    if not given:
        return None
    rates: dict[str, Any] = {key: sum(getattr(each, key) for each in given) for key in _RATES}
    rates |= {key: _summed(getattr(each, key) for each in given) for key in ("gated", "dropped", "bridges")}
    return Rates(**rates)
