"""The section `addresses`: how much may wait for one topic, and what happens beyond that."""

from typing import Literal

from pydantic import Field

from config.value_types import (
    Duration,
    FiniteSize,
    LimitedSize,
    Model,
    TopicFilter,
    Window,
)


class AddressSettings(Model):
    """FC-24: the limit of each matching topic, and what happens to PUBLISHes that exceed it."""

    match: TopicFilter
    """FC-24: the topics; each of them is an address. Of several filters that match, the most specific one applies."""
    max_size_bytes: FiniteSize = Field(ge=1)
    """FC-24: what deliveries of one address may cost in all sessions (FC-24a); at this size it is full."""
    full_policy: Literal["block", "page", "drop", "fail"] = "block"
    """FC-25, FC-26: what happens to a PUBLISH to a full address."""
    block_timeout: Duration = Field(default=30.0, gt=0)
    """FC-25: seconds after which a parked PUBLISH is refused as with `fail`. math.inf = never. Only with `block`."""
    reject_threshold_bytes: Window = -1
    """FC-25: the same with what is parked; beyond it PUBLISH is refused at once. -1 = no limit. Only with `block`."""
    page_limit_bytes: LimitedSize = 0
    """FC-26: bytes of one address in the journal, record headers included. 0 = no limit. Only with `page`."""
    page_full_policy: Literal["drop", "fail"] = "fail"
    """FC-26: what happens beyond page_limit_bytes. Only with `page`."""
