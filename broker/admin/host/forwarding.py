"""Requests to the host as questions to its cells: which cells, and on whose behalf."""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlencode

from fastapi import HTTPException, Request

from broker.admin.api.who import ASKED_FOR, OPERATOR, Asker, on_behalf_of
from broker.admin.host.all_cells import CellAnswers, ask_cells
from broker.admin.host.asking import CellQuestion
from broker.admin.host.managed_host import AskedCell, ManagedHost
from broker.cluster.slots import home_of

KEEPER: Final = Asker("the keeper", OPERATOR, "unix")
"""Who asks if nobody has: for /ready, and for the dashboard of all who look."""

ONLY: Final = "cell"
"""The key of a query that names one cell."""

_PASSED_ON: Final = (b"accept", b"content-type")

Query = list[tuple[str, str]]


class Forwarding:
    """Asks cells what the host is asked."""

    def __init__(self, host: ManagedHost) -> None:
        self._host = host

    def headers(self, who: Asker, request: Request | None = None) -> tuple[tuple[bytes, bytes], ...]:
        """The headers of a question on behalf of somebody."""
        given = [] if request is None else [each for each in request.headers.raw if each[0] in _PASSED_ON]
        return ((ASKED_FOR.encode(), on_behalf_of(who)), *given)

    def wanted(self, request: Request) -> Sequence[AskedCell]:
        """All cells, or the one that the query names. Raises HTTPException."""
        cells = self._host.cells
        text = request.query_params.get(ONLY)
        if text is None:
            return cells
        if text.isascii() and text.isdigit() and 1 <= int(text) <= len(cells):
            return [cells[int(text) - 1]]
        raise HTTPException(422, f"cell: found {text[:20]!r}: write 1 to {len(cells)}")

    def home(self, request: Request, client_id: str) -> Sequence[AskedCell]:
        """The home of a client, or the cell that the query names: links have one name in several cells."""
        wanted = self.wanted(request)
        cells = self._host.cells
        return [cells[home_of(client_id, len(cells)) - 1]] if wanted is cells else wanted

    async def question(self, request: Request, who: Asker, query: Query | None = None) -> CellQuestion:
        """What a cell is asked; `query`: in place of that of the request."""
        asked = request.query_params.multi_items() if query is None else query
        rest = urlencode([(key, value) for key, value in asked if key != ONLY])
        target = request.scope["raw_path"].decode("ascii") + (f"?{rest}" if rest else "")
        return CellQuestion(request.method, target, self.headers(who, request), await request.body())

    async def ask(
        self,
        request: Request,
        who: Asker,
        cells: Sequence[AskedCell],
        seconds: float,
        query: Callable[[int], Query] | None = None,
    ) -> CellAnswers:
        """The answers of these cells; `query`: that of each cell, by its number."""
        questions = {
            each.number: await self.question(request, who, None if query is None else query(each.number))
            for each in cells
        }
        return await ask_cells(cells, questions, seconds)

    async def ask_all(self, target: str, seconds: float, headers: tuple[tuple[bytes, bytes], ...] = ()) -> CellAnswers:
        """The answers of all cells to a question of the keeper's own."""
        question = CellQuestion("GET", target, (*self.headers(KEEPER), *headers))
        return await ask_cells(self._host.cells, {each.number: question for each in self._host.cells}, seconds)
