"""One entry of the section `quotas`: how much the users that it is about may use (FC-31)."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from config import units
from config.mqtt import MOST_TOPIC_LEVELS
from config.rule import NamePattern
from config.value_types import MAX_UINT16, WRITTEN, Model, Written


def _limit(parse: Callable[[object], int]) -> Callable[[object, ValidationInfo], int | None]:
    """A limit that may be left out. A written 0 is refused: it looks like nothing and would mean no limit."""

    def check(value: object, info: ValidationInfo) -> int | None:
        if value is None:
            return None
        limit = parse(value)
        written = bool((info.context or {}).get(WRITTEN, False))
        if limit == 0 and str(value).strip() not in (units.INFINITY, str(units.UNBOUNDED)) and written:
            raise ValueError(f"found {units.found(value)}: write 1 or more, or {units.INFINITY} for no limit")
        return limit

    return check


def _format(write: Callable[[int], object]) -> Written:
    def written(value: Any) -> object:
        return None if value is None else write(value)

    return Written(written)


Limit = Annotated[int | None, BeforeValidator(_limit(units.parse_count)), _format(units.format_count)]
SizeLimit = Annotated[int | None, BeforeValidator(_limit(units.parse_size)), _format(units.format_size)]
RateLimit = Annotated[int | None, BeforeValidator(_limit(units.parse_rate)), _format(units.format_count)]


class Quota(Model):
    """FC-31: limits. Of the entries about a user, the first one that has a limit sets it. None = this one does not."""

    users: list[NamePattern] = Field(default_factory=list)
    """FC-31: user names, or patterns with `*`, `?` and `[...]`; empty = all clients, also anonymous ones."""
    roles: list[NamePattern] = Field(default_factory=list)
    """FC-31: roles, of which the user needs one; empty = any user."""
    max_connections: Limit = None
    """FC-31: clients of a user that may be connected at once; all anonymous clients count as one user."""
    max_kept_sessions: Limit = None
    """FC-31: sessions of a user that outlive their connection, those of connected clients included."""
    max_subscriptions: Limit = None
    """FC-31: subscriptions of a session."""
    max_filter_levels: Limit = Field(default=None, le=MOST_TOPIC_LEVELS)
    """FC-31: levels of a topic filter."""
    max_retained_messages: Limit = None
    """FC-31: retained messages that clients of a user have published."""
    max_retained_bytes: SizeLimit = None
    """FC-31: bytes of them: payload, topic, properties and 64 bytes for each."""
    producer_max_rate: RateLimit = None
    """FC-31: PUBLISHes a second that are read from one connection; instead of session.producer_max_rate."""
    producer_max_bytes: SizeLimit = None
    """FC-31: bytes of PUBLISHes a second that are read from one connection, counted as those of retained messages."""
    max_inflight: Limit = Field(default=None, le=MAX_UINT16)
    """FC-31: instead of session.max_inflight."""
    max_mqueue_len: Limit = None
    """FC-31: instead of session.max_mqueue_len."""
    max_mqueue_bytes: SizeLimit = None
    """FC-31: instead of session.max_mqueue_bytes."""
