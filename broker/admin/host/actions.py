"""What operators do to a host: in the home of a client, or in all cells. Cells write the audit log."""

from typing import Final

from fastapi import HTTPException, Request, Response
from fastapi.responses import JSONResponse

from broker.admin.api.audit import Audit
from broker.admin.host.all_cells import PATIENCE, CellAnswers
from broker.admin.host.forwarding import Forwarding
from broker.admin.host.managed_host import ManagedHost
from broker.admin.host.merging import Merge, one_of, reloaded
from broker.admin.host.views import wrong
from broker.cluster.slots import home_of
from config.errors import ConfigError

_MISSING: Final = 404
_PARTLY: Final = 502


class Actions:
    """Answers requests that change something."""

    def __init__(self, host: ManagedHost, forwarding: Forwarding) -> None:
        self._host = host
        self._forwarding = forwarding

    async def of_client(self, request: Request, audit: Audit) -> Response:
        """Something is done to a client, in its home."""
        client_id = request.path_params["client_id"] or request.query_params.get("id", "")
        home = self._forwarding.home(request, client_id)
        answers = await self._forwarding.ask(request, audit.who, home, PATIENCE)
        return wrong(answers) or JSONResponse(one_of(answers.done))

    async def of_all(self, merge: Merge, request: Request, audit: Audit) -> Response:
        """Something is done in all cells."""
        answers = await self._forwarding.ask(request, audit.who, self._forwarding.wanted(request), PATIENCE)
        return _answer(request, audit, answers, merge)

    async def of_those_who_have_it(self, merge: Merge | None, request: Request, audit: Audit) -> Response:
        """Something is done in the cells that have the address or bridge; it is missing if none has it."""
        answers = await self._forwarding.ask(request, audit.who, self._forwarding.wanted(request), PATIENCE)
        if answers.done:
            answers = answers._replace(refused=[each for each in answers.refused if each.status != _MISSING])
        return _answer(request, audit, answers, merge or one_of)

    async def publish(self, request: Request, audit: Audit) -> Response:
        """A message is published in one cell, the same one for each topic, so that order is kept."""
        cells = self._forwarding.wanted(request)
        if len(cells) > 1:
            cells = [cells[home_of(await _topic(request), len(cells)) - 1]]
        answers = await self._forwarding.ask(request, audit.who, cells, PATIENCE)
        return wrong(answers) or JSONResponse(answers.done[0].json)

    async def reload(self, request: Request, audit: Audit) -> Response:
        """The configuration is read again: first by the keeper, so that a mistake in it changes no cell."""
        answers = CellAnswers([], [], {})

        async def in_cells() -> bool:
            nonlocal answers
            answers = await self._forwarding.ask(request, audit.who, self._host.cells, PATIENCE)
            return bool(answers.done)

        try:
            await self._host.reload(in_cells)
        except (ConfigError, OSError) as error:
            audit.refused("reload", "", f"refused: {error}")
            raise HTTPException(422, str(error)) from None
        return _answer(request, audit, answers, reloaded)


def _answer(request: Request, audit: Audit, answers: CellAnswers, merge: Merge) -> Response:
    """What the cells have done; if one has not, which one, and which ones have."""
    if not answers.done:
        return wrong(answers) or Response()
    if not answers.missing and not answers.refused:
        return JSONResponse(merge(answers.done))
    failed = [*answers.unanswered, *(f"cell {each.cell}: {each.detail}" for each in answers.refused)]
    done = ", ".join(str(each.cell) for each in answers.done)
    detail = f"{'; '.join(failed)}; done by cell{'s' if len(answers.done) > 1 else ''} {done}"
    audit.refused(f"{request.method} {request.url.path}", "", f"partly done: {detail}")
    return JSONResponse({"detail": detail, "done": merge(answers.done)}, _PARTLY)


async def _topic(request: Request) -> str:
    """The topic of a message, if there is one: a cell refuses what is wrong."""
    try:
        return str((await request.json())["topic"])
    except (ValueError, KeyError, TypeError, UnicodeError):
        return ""
