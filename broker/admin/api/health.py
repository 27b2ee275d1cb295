"""/health and /ready: for whoever starts brokers, and whoever sends clients to them. They need no token."""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from broker.admin.managed import Managed


class Health(BaseModel):
    """Whether the process works: the event loop answers, and the journal has not failed."""

    status: Literal["ok", "failed"]
    reasons: list[str]


class Ready(BaseModel):
    """Whether clients should be sent to this broker."""

    ready: bool
    reasons: list[str]


def health_router(managed: Managed) -> APIRouter:
    """Both endpoints."""
    router = APIRouter(tags=["health"])

    @router.get("/health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        """200 while the broker works; 503 when its journal has failed."""
        commits = managed.broker.commits
        failed = commits is not None and commits.failed is not None
        if failed:
            response.status_code = 503
        return Health(status="failed" if failed else "ok", reasons=["the journal has failed"] if failed else [])

    @router.get("/ready", responses={503: {"model": Ready}})
    async def ready(response: Response) -> Ready:
        """200 when clients may connect; 503 while the broker starts or stops, or refuses messages."""
        reasons = managed.unready()
        if reasons:
            response.status_code = 503
        return Ready(ready=not reasons, reasons=reasons)

    return router
