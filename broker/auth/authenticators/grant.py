"""What a service or a database says of a user who is let in: user name, roles, limits."""

import json
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from broker.auth.identity import SUPERUSER, Identity
from config.expected import expected
from config.quota import Quota
from config.value_types import WRITTEN

MOST_ROLES: Final = 100
MOST_NAME: Final = 65_535
"""Characters of the longest user name in CONNECT."""
_LONGEST_ROLE: Final = 255

_NO_LIMITS: Final = {"users", "roles"}


def _check_role(value: object) -> object:
    if isinstance(value, str) and (not value.isprintable() or not 0 < len(value) <= _LONGEST_ROLE or value[0] == "$"):
        raise ValueError(f"write 1 to {_LONGEST_ROLE} printable characters, not beginning with $")
    return value


def _check_name(value: object) -> object:
    if isinstance(value, str) and (not value.isprintable() or not 0 < len(value) <= MOST_NAME):
        raise ValueError(f"write 1 to {MOST_NAME} printable characters")
    return value


def _check_limits(value: object) -> object:
    """The limits of an entry of `quotas`, in written form."""
    if not isinstance(value, dict):
        raise ValueError("write keys of `quotas`, such as max_connections, with their limits")
    if wrong := sorted(_NO_LIMITS.intersection(value)):
        raise ValueError(f"{wrong[0]}: the limits are those of one user")
    try:
        return Quota.model_validate(value, context={WRITTEN: True}).model_dump(exclude=_NO_LIMITS, exclude_none=True)
    except ValidationError as error:
        raise ValueError(text(error)) from None


class UserGrant(BaseModel):
    """A user who is let in. Unknown keys are mistakes: one that is not understood must not be passed over.

    So are values of another type: "no" is a text, and would be true.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, strict=True)

    username: Annotated[str | None, BeforeValidator(_check_name)] = None
    """None: the user name in CONNECT."""
    roles: list[Annotated[str, BeforeValidator(_check_role)]] = Field(default_factory=list, max_length=MOST_ROLES)
    superuser: bool = False
    """Whether rules do not apply to the user."""
    limits: Annotated[dict[str, Any], BeforeValidator(_check_limits)] = Field(default_factory=dict)
    """Limits of `quotas` that prevail over those of the configuration."""

    def identity(self, username: str, source: str) -> Identity:
        """Who it is. `username`: that of CONNECT. Raises ValueError if there is none, but roles or limits."""
        user = self.username or username
        if not user and (self.roles or self.superuser or self.limits):
            raise ValueError("username: is missing, and CONNECT has none: roles and limits are those of a user")
        roles = frozenset([*self.roles, SUPERUSER] if self.superuser else self.roles)
        limits = tuple(sorted((key, int(limit)) for key, limit in self.limits.items()))
        return Identity(user, roles, source, limits=limits)


def parse(content: bytes) -> UserGrant:
    """A grant in JSON; nothing is as an empty object. Raises ValueError, whose text does not quote the values."""
    if not content.strip():
        return UserGrant()
    found = load(content.decode())
    if not isinstance(found, dict):
        raise ValueError("expected a JSON object")
    try:
        return UserGrant.model_validate(found)
    except ValidationError as error:
        raise ValueError(text(error)) from None


def load(content: str) -> Any:
    """What JSON stands for. Raises ValueError, also for a key that is there twice: one of them would be passed over."""
    try:
        return json.loads(content, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("JSON with too many levels") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.80} is there more than once")
    return found


def text(error: ValidationError) -> str:
    """What is wrong, without the values."""
    found = error.errors(include_url=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {expected(each['type'], each.get('ctx', {}))}" for each in found
    )
