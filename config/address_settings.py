"""The sections `addresses` and `paging`: how much may wait for one topic, and what a publisher gets of it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from config.value_types import (
    Duration,
    FiniteSize,
    LimitedSize,
    Model,
    TopicFilter,
    Window,
    check_directory,
)


class AddressSettings(Model):
    """FC-24: the limit of each topic that matches, and what happens to what is published past it."""

    match: TopicFilter
    """FC-24: the topics; each of them is an address. Of several filters that match, the most specific one applies."""
    max_size_bytes: FiniteSize = Field(ge=1)
    """FC-24: payload bytes that all sessions may hold of one address in windows and mqueues; with these it is full."""
    full_policy: Literal["block", "page", "drop", "fail"] = "block"
    """FC-25, FC-26: what happens to a PUBLISH to a full address."""
    block_timeout: Duration = Field(default=30.0, gt=0)
    """FC-25: seconds after which what is parked is answered as `fail` does. math.inf = never. Only with `block`."""
    reject_threshold_bytes: Window = -1
    """FC-25: payload bytes, held and parked, past which `fail` answers at once. -1 = no limit. Only with `block`."""
    page_limit_bytes: LimitedSize = 0
    """FC-26: bytes of one address on disk, as they are stored there. 0 = no limit. Only with `page`."""
    page_full_policy: Literal["drop", "fail"] = "fail"
    """FC-26: what happens past page_limit_bytes. Only with `page`."""


class Paging(Model):
    """FC-26: where addresses keep what does not fit in memory."""

    directory: Annotated[Path | None, BeforeValidator(check_directory)] = None
    """FC-26: where page files go; None = nowhere, and then no address can page."""
