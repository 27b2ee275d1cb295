"""Reload over the API."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from broker.admin.api.audit import Audit, operator_audit
from broker.admin.api.who import Finder
from broker.admin.managed import Managed
from config.errors import ConfigError


class Reloaded(BaseModel):
    """What a reload has changed. Certificates and the files of users and rules are read again in any case."""

    changed: list[str] = Field(description="Keys whose new values apply.")
    restart: list[str] = Field(description="Keys whose new values need a restart: the old ones still apply.")


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
            audit.refused("reload", "")
            raise HTTPException(422, str(error)) from None
        audit.done("reload", "", f"changed: {', '.join(changes.changed) or 'nothing'}")
        return Reloaded(changed=changes.changed, restart=changes.restart)

    return router
