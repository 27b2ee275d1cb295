"""What a service or a database says of a user who is let in: user name, roles, limits."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from broker.auth.identity import SUPERUSER, Identity
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
    """A user who is let in. Unknown keys are mistakes: one that is not understood must not be passed over."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    username: Annotated[str | None, Field(min_length=1, max_length=MOST_NAME)] = None
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


def text(error: ValidationError) -> str:
    """What is wrong, without the values."""
    found = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)
