"""Reload over the API."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from broker.admin.api.audit import Audit, operator_audit
from broker.admin.api.who import Finder
from broker.admin.managed import Managed
from broker.server.reload import Changes, summary
from config.errors import ConfigError


class OpenedListener(BaseModel):
    """A listener that has been opened."""

    name: str
    bind: str


class ClosedListener(OpenedListener):
    """A listener that has been closed: it was there."""

    disconnected: int = Field(description="Clients that were connected to it; 0 if it has only moved, and they stay.")


class Reloaded(BaseModel):
    """What a reload has changed. It has applied to all when this is answered."""

    changed: list[str] = Field(description="Keys whose new values apply.")
    renewed: list[str] = Field(
        description="Keys that name the same files (of certificates, users or rules) with other contents than at the "
        "last reload, or the start."
    )
    opened: list[OpenedListener] = Field(description="Listeners that are new, or somewhere else now.")
    closed: list[ClosedListener] = Field(description="Listeners that are gone, or were somewhere else before.")
    restart: dict[str, str] = Field(
        description="Keys whose new values need a restart, each with the reason: the old ones still apply."
    )


def _reloaded(changes: Changes) -> Reloaded:
    gone = changes.disconnected
    return Reloaded(
        changed=changes.changed,
        renewed=changes.renewed,
        opened=[OpenedListener(name=each.name, bind=each.bind) for each in changes.opened],
        closed=[
            ClosedListener(name=each.name, bind=each.bind, disconnected=gone.get(each.name, 0))
            for each in changes.closed
        ],
        restart=changes.restart,
    )


def reload_router(managed: Managed, find: Finder) -> APIRouter:
    """The endpoint."""
    router = APIRouter(tags=["actions"])
    Log = Annotated[Audit, Depends(operator_audit(find))]  # noqa: N806 - a type, whose dependency is known only here

    @router.post("/reload")
    async def reload(audit: Log) -> Reloaded:
        """Read the configuration again: it is checked whole, and then what can change live does."""
        try:
            changes = await managed.reload()
        except (ConfigError, OSError) as error:
            audit.refused("reload", "", f"refused: {error}")
            raise HTTPException(422, str(error)) from None
        audit.done("reload", "", summary(changes))
        return _reloaded(changes)

    return router
