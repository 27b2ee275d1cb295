"""An authenticator of another package: what it answers is checked before it counts."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from broker.auth.authenticators.authenticator import Answer, Busy, Login, No, Unavailable
from broker.auth.authenticators.outage import Outage, where
from broker.auth.identity import Identity
from broker.auth.plugins.loading import load
from config.plugins import Plugin
from config.quota import Quota

TIMEOUT: Final = 30.0
"""Seconds within which a plugin has to answer."""

_LIMITS: Final = frozenset(Quota.model_fields) - {"users", "roles"}


class AuthenticatorPlugin:
    """Asks a plugin."""

    asked_about_nameless = True

    def __init__(self, plugin: Plugin, close_users: Callable[[str, set[str]], None]) -> None:
        """Create it. `close_users` disconnects users of a source. Raises OSError."""
        self.name = f"authentication.plugins {plugin.name}"
        self._source = f"plugins.{plugin.name}"
        self._inner: Any = load("authentication", plugin, "authenticate", True)
        self._outage = Outage(self.name)
        self._close_users = close_users
        self._log = structlog.get_logger("sluice")

    async def authenticate(self, login: Login) -> Answer:
        """Return what the plugin says. Raises Busy and Unavailable."""
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = self._checked(await self._inner.authenticate(login))
        except (Busy, Unavailable):
            raise
        except TimeoutError:
            self._outage.failed(f"no answer within {TIMEOUT:g} s")
        except _WrongAnswerError as error:
            self._outage.failed(str(error))
        except Exception as error:  # its text may quote the login
            self._outage.failed(where(error))
        self._outage.over()
        return answer

    async def run(self) -> None:
        """Do what the plugin does beside the broker, if anything."""
        run = getattr(self._inner, "run", None)
        if run is None:
            return
        try:
            await run(self._disconnect)
        except Exception as error:
            self._log.error("plugin_ended", plugin=self.name, detail=where(error))

    def _disconnect(self, users: set[str]) -> None:
        self._close_users(self._source, set(users))

    def _checked(self, answer: object) -> Answer:
        """The answer, with types that are right. Raises _WrongAnswerError."""
        if isinstance(answer, No):
            return answer
        if not isinstance(answer, Identity):
            raise _WrongAnswerError(f"`authenticate` has returned a {type(answer).__name__}; expected Identity or No")
        values: tuple[Any, ...] = tuple(answer)  # whatever the plugin has put there
        user, roles, _, expires_at, limits = values
        if not _is_name(user):
            raise _WrongAnswerError("an Identity without a user name of printable characters")
        if isinstance(roles, str) or not all(_is_name(role) for role in roles):
            raise _WrongAnswerError("an Identity whose roles are not names")
        if not all(key in _LIMITS and _is_count(limit) for key, limit in limits):
            raise _WrongAnswerError("an Identity whose limits are not keys of `quotas` with whole numbers")
        if not _is_count(expires_at):
            raise _WrongAnswerError("an Identity whose expires_at is no whole number")
        return Identity(user, frozenset(roles), self._source, expires_at, tuple(sorted(limits)))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class _WrongAnswerError(Exception):
    """What the plugin has returned is no answer; the text does not quote it."""
