"""One rule of authorization: who may do what."""

import re
from ipaddress import ip_network
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.units import found
from config.value_types import Model, TopicFilter

PLACEHOLDERS: Final = ("{username}", "{client_id}", "{role}")
"""What a client's names replace in a topic filter."""

_BRACES: Final = re.compile(r"\{[^{}/]*\}")


def _check_placeholders(topic_filter: str) -> str:
    for name in _BRACES.findall(topic_filter):
        if name not in PLACEHOLDERS:
            raise ValueError(f"found {found(name)}: write {', '.join(PLACEHOLDERS[:-1])} or {PLACEHOLDERS[-1]}")
    return topic_filter


def _check_name(value: object) -> object:
    if value == "":
        raise ValueError("found an empty name: write a name, or a pattern such as sensor-*")
    return value


def _check_network(value: object) -> object:
    if isinstance(value, str):
        try:
            ip_network(value)
        except ValueError:
            raise ValueError(f"found {found(value)}: write an IP address, or a network such as 10.1.0.0/16") from None
    return value


RuleFilter = Annotated[TopicFilter, AfterValidator(_check_placeholders)]
NamePattern = Annotated[str, BeforeValidator(_check_name)]
Network = Annotated[str, BeforeValidator(_check_network)]


class Rule(Model):
    """The first rule that matches a client and what it does decides. An empty list means any."""

    permit: Literal["allow", "deny"]
    """What the rule decides."""
    topics: list[RuleFilter] = Field(min_length=1)
    """Topic filters; a client's names replace `{username}`, `{client_id}` and `{role}`."""
    action: Literal["publish", "subscribe", "all"] = "all"
    """What the rule is about."""
    users: list[NamePattern] = Field(default_factory=list)
    """User names, or patterns with `*`, `?` and `[...]`; a client without a user matches none."""
    roles: list[NamePattern] = Field(default_factory=list)
    """Roles, of which the user needs one."""
    client_ids: list[NamePattern] = Field(default_factory=list)
    addresses: list[Network] = Field(default_factory=list)
    """IP addresses or networks of clients."""
    listeners: list[NamePattern] = Field(default_factory=list)
    """Names of listeners."""
    qos: list[Annotated[int, Field(ge=0, le=2, strict=True)]] = Field(default_factory=list)
    """QoS of the PUBLISH, or of the subscription."""
    retain: bool | None = None
    """Whether the PUBLISH has RETAIN; None = either."""

    @model_validator(mode="after")
    def _check_retain(self) -> "Rule":
        if self.retain is not None and self.action == "subscribe":
            raise ValueError("found retain in a rule about subscribe: leave it out")
        return self
