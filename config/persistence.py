"""The section `persistence`: what survives the process (FC-27)."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from config.value_types import LimitedSize, Model, Size, SyncInterval, check_directory

LEAST_BYTES: Final = 4096


def _check_max_bytes(value: int) -> int:
    """Refuse a journal that could not even hold a few sessions."""
    if 0 < value < LEAST_BYTES:
        raise ValueError(f"found {value} bytes: a journal needs 4KiB at least; infinity is no limit")
    return value


class Persistence(Model):
    """FC-27: the journal."""

    directory: Annotated[Path | None, BeforeValidator(check_directory)] = None
    """The directory of the journal; None = nothing survives the process."""
    sync: SyncInterval = Field(default=0.0, ge=0.0, le=60.0)
    """Seconds between commits, which nobody waits for; 0 = `commit`: acknowledgements wait for their commit."""
    memory: Size = 256 * 1024 * 1024
    """FC-30: bytes of waiting deliveries that may be in memory; 0 = any number."""
    max_bytes: Annotated[LimitedSize, AfterValidator(_check_max_bytes)] = 0
    """FC-29: bytes of the journal beyond which no message is added; 0 = infinity."""
