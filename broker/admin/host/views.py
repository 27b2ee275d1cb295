"""What operators see of a host: lists, sums, metrics, and whether it works."""

from typing import Final

from fastapi import HTTPException, Request, Response
from fastapi.responses import JSONResponse

from broker.admin.api.health import Health, Ready
from broker.admin.api.lists import QUERIES
from broker.admin.api.overview import Setting
from broker.admin.api.who import Asker
from broker.admin.host.all_cells import PATIENCE, QUICK, CellAnswers
from broker.admin.host.forwarding import Forwarding, Query
from broker.admin.host.managed_host import ManagedHost
from broker.admin.host.merged_lists import MergedList, limit_of
from broker.admin.host.merged_metrics import merged_metrics
from broker.admin.host.merging import Merge, one_of, overview, unready
from broker.totals import Totals
from config.render import explained, settings


class Views:
    """Answers requests that change nothing."""

    def __init__(self, host: ManagedHost, forwarding: Forwarding, totals: Totals) -> None:
        self._host = host
        self._forwarding = forwarding
        self._totals = totals

    async def listed(self, name: str, request: Request, who: Asker) -> Response:
        """A page of a list."""
        given = request.query_params
        default = QUERIES[name].model_fields["limit"].default
        limit = limit_of(given.get("limit"), default)
        page = MergedList(name, given.get("after"), limit, len(self._host.cells))

        def query(cell: int) -> Query:
            after = page.after(cell)
            own = [each for each in given.multi_items() if each[0] not in {"after", "places"}]
            return [*own, ("places", "true"), *([] if after is None else [("after", after)])]

        answers = await self._forwarding.ask(request, who, self._forwarding.wanted(request), PATIENCE, query)
        return wrong(answers) or JSONResponse({"broker": self._host.config.node_name, **page.merged(answers)})

    async def overview(self, request: Request, who: Asker) -> Response:
        """The host at a glance. Cells that do not answer are in it."""
        answers = await self._forwarding.ask(request, who, self._host.cells, QUICK)
        return JSONResponse(overview(self._host, answers))

    async def of_all(self, merge: Merge, request: Request, who: Asker) -> Response:
        """What all cells have, as one answer."""
        answers = await self._forwarding.ask(request, who, self._forwarding.wanted(request), QUICK)
        return wrong(answers) or JSONResponse(merge(answers.done))

    async def of_client(self, request: Request, who: Asker) -> Response:
        """What the home of a client says of it."""
        home = self._forwarding.home(request, request.path_params["client_id"])
        answers = await self._forwarding.ask(request, who, home, QUICK)
        return wrong(answers) or JSONResponse(one_of(answers.done))

    async def of_any(self, request: Request, who: Asker) -> Response:
        """What each cell would answer alike: the first that does is enough."""
        for each in self._host.cells:
            answers = await self._forwarding.ask(request, who, [each], QUICK)
            for answer in (*answers.done, *answers.refused):
                return Response(answer.body, answer.status, media_type=answer.content_type)
        raise HTTPException(503, "no cell answers")

    async def configuration(self, request: Request, who: Asker) -> Response:
        """Every key with its value and where it comes from, as the keeper has read it."""
        found = settings(self._host.config, explained(self._host.config, self._host.sources))
        shown = [Setting(key=key, value=value, source=source).model_dump(mode="json") for key, value, source in found]
        return JSONResponse(shown)

    async def metrics(self, request: Request, who: Asker) -> Response:
        """The metrics of all cells. Those of a cell that does not answer are missing, and sluice_cell_up is 0."""
        accept = request.headers.get("accept", "")
        answers = await self._forwarding.ask(request, who, self._forwarding.wanted(request), PATIENCE)
        text, content_type = merged_metrics(self._host, self._totals, answers, accept)
        return Response(text, media_type=content_type)

    async def health(self) -> Response:
        """200 while all cells work; 503 if one hangs, or its journal has failed. That one starts is no failure."""
        answers = await self._forwarding.ask_all("/health", QUICK)
        starting = {each.number for each in self._host.cells if each.trouble() and not each.hangs()}
        reasons = [f"cell {number} {why}" for number, why in answers.missing.items() if number not in starting]
        reasons += [f"cell {each.cell}: {each.detail}" for each in answers.refused]
        health = Health(status="failed" if reasons else "ok", reasons=reasons)
        return JSONResponse(health.model_dump(), 503 if reasons else 200)

    async def ready(self) -> Response:
        """200 when clients may connect to all cells."""
        reasons = unready(self._host, await self._forwarding.ask_all("/ready", QUICK))
        return JSONResponse(Ready(ready=not reasons, reasons=reasons).model_dump(), 503 if reasons else 200)


def wrong(answers: CellAnswers) -> Response | None:
    """The answer if none is right: the refusal of a cell, or which cells do not answer; None if there is one."""
    if answers.done:
        return None
    if answers.refused:
        first = min(answers.refused, key=lambda each: each.status == _MISSING)
        return Response(first.body, first.status, media_type=first.content_type)
    return JSONResponse({"detail": "; ".join(answers.unanswered)}, 503)


_MISSING: Final = 404
