"""An authorizer of another package: it gives the rules of each client, which count like those of the configuration."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

import structlog

from broker.auth.authenticators.outage import where
from broker.auth.permissions import Who
from broker.auth.plugins.loading import load
from broker.auth.rules import Rule, from_settings
from config.plugins import Plugin
from config.rule import Rule as RuleSettings


class RulesPlugin(Protocol):
    """Gives rules. If it has `async def run(self, changed)`, that runs beside the broker."""

    def rules(self, who: Who) -> Iterable[RuleSettings | Mapping[str, object]]:
        """The rules of a client. Called in the event loop, for each connection, so it must not wait for anything."""
        ...


class AuthorizerPlugin:
    """Asks a plugin."""

    def __init__(self, plugin: Plugin) -> None:
        """Create it. Raises OSError."""
        self.name = f"authorization.plugins {plugin.name}"
        self._inner: Any = load("authorization", plugin, "rules", False)
        self._failing = False
        self._log = structlog.get_logger("sluice")

    def rules(self, who: Who) -> list[Rule] | None:
        """The rules of a client; None if the plugin fails, so that nothing more must be allowed."""
        try:
            found = [from_settings(RuleSettings.model_validate(each)) for each in self._inner.rules(who)]
        except Exception as error:
            if not self._failing:
                self._failing = True
                self._log.error("authorizer_failed", authorizer=self.name, detail=where(error))
            return None
        if self._failing:
            self._failing = False
            self._log.info("authorizer_recovered", authorizer=self.name)
        return found

    async def run(self, renew: Callable[[], Awaitable[None]]) -> None:
        """Do what the plugin does beside the broker, if anything; when its rules have changed, `renew` is called."""
        run = getattr(self._inner, "run", None)
        if run is None:
            return
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew(changed, renew))
            try:
                await run(changed.set)
            except Exception as error:
                self._log.error("plugin_ended", plugin=self.name, detail=where(error))

    async def _renew(self, changed: asyncio.Event, renew: Callable[[], Awaitable[None]]) -> None:
        """Renew when something has changed, also after `run` has ended. An error in that is not the last renewal."""
        while True:
            await changed.wait()
            changed.clear()
            try:
                await renew()
            except Exception as error:
                message = f"{self.name}: its rules may not be in use everywhere"
                asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
