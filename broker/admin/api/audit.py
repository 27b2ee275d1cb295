"""The audit log: who has done what, from where, and with which result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import structlog
from fastapi import Depends, HTTPException, Request

from broker.admin.api.who import OPERATOR, Asker, Finder
from broker.server.logs import AUDIT
from broker.totals import ROLE
from protocol.replies import shortened


class Audit:
    """Writes the log of one asker's action."""

    def __init__(self, log: Any, who: Asker) -> None:
        self.who = who
        self._log = log

    def done(self, action: str, target: str, result: str) -> None:
        """Write one line: the event is `audit`, at any log level. None of them is left out."""
        self._write(action, target, result)

    def refused(self, action: str, target: str, result: str = "refused") -> None:
        """Write that it was not done: of many such lines only some are written."""
        self._write(action, target, result, refused=True)

    @contextmanager
    def noted(self, action: str, target: str) -> Iterator[None]:
        """Write it if what is done meanwhile is refused."""
        try:
            yield
        except HTTPException as error:
            self.refused(action, target, f"refused: {error.detail}")
            raise

    def _write(self, action: str, target: str, result: str, **more: bool) -> None:
        who = self.who
        about = {"who": who.name, "peer": who.peer, "action": shortened(action)}
        self._log.info(AUDIT, **about, target=shortened(target), result=shortened(result), **more)

    def missing(self, action: str, target: str, what: str) -> HTTPException:
        """Write that there is no such thing; returns the answer to raise."""
        self.refused(action, target, f"no such {what}")
        return HTTPException(404, f"there is no {what} {shortened(target)!r}")


def operator_audit(find: Finder) -> Callable[..., Any]:
    """The dependency of actions: the log for one, and a refusal of those who may only look, which is logged too."""
    log = structlog.get_logger("sluice")

    async def check(request: Request, who: Annotated[Asker, Depends(find)]) -> Audit:
        audit = Audit(log, who)
        if who.role != OPERATOR:
            find.refused(ROLE)
            audit.refused(f"{request.method} {request.url.path}", "")
            raise HTTPException(403, f"{who.name} has the role {who.role}: this needs {OPERATOR}")
        request.state.audit = audit  # for what is found wrong with the request afterwards
        return audit

    return check
