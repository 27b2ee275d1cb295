"""The sections `authentication` and `authorization`: who may come in, and what they may do."""

from typing import Literal

from pydantic import Field

from config.value_types import Model, TopicFilter


class Authentication(Model):
    """How clients show who they are."""


class Authorization(Model):
    """What clients may publish and subscribe to."""

    deny_publish: list[TopicFilter] = Field(default_factory=list)
    """Topics that nobody may publish to."""
    deny_subscribe: list[TopicFilter] = Field(default_factory=list)
    """Topics that nobody receives: neither by a filter that they cover nor by a wider one."""
    refused_publish: Literal["acknowledge", "close"] = "acknowledge"
    """What 3.1.1, which has no word for it, makes of a refused PUBLISH [MQTT-3.3.5-2]."""
