"""The section `authentication.http`: a service of the operator's decides about logins."""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from config.units import found
from config.urls import refusal
from config.value_types import FiniteCount, FiniteDuration, Model, check_path

_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)

MOST_REQUESTS: Final = 1_000
MOST_CACHED: Final = 1_000_000


def _check_url(value: object) -> object:
    if isinstance(value, str) and (why := refusal(value)):
        raise ValueError(f"{why}; header_file is for secrets")
    return value


def _check_header(value: object) -> object:
    if isinstance(value, str) and not _HEADER.fullmatch(value):
        raise ValueError(f"found {found(value)}: write the name of a header, 1 to 64 of the characters A-Z a-z 0-9 -")
    return value


class Http(Model):
    """The service, and how it is asked."""

    url: Annotated[str, BeforeValidator(_check_url)]
    """Where each login is sent, as JSON by POST."""
    cafile: Annotated[Path | None, BeforeValidator(check_path)] = None
    """The authorities that may have signed the service's certificate; None = those of this machine."""
    header: Annotated[str, BeforeValidator(_check_header)] = "Authorization"
    """The name of the header that tells the service who asks."""
    header_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """A file with the value of that header, which is secret; None = no such header."""
    timeout: FiniteDuration = Field(default=5.0, ge=0.1, le=60)
    """Seconds within which the service has to answer."""
    max_requests: FiniteCount = Field(default=32, ge=1, le=MOST_REQUESTS)
    """Requests at the same time; further logins wait."""
    cache_time: FiniteDuration = Field(default=30.0, le=86_400)
    """Seconds for which an answer counts, for the same login; 0 = each login is a request."""
    cache_size: FiniteCount = Field(default=10_000, ge=1, le=MOST_CACHED)
    """Answers that are kept."""
