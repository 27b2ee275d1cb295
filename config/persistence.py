"""The section `persistence`: what survives the process (FC-27)."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from config.value_types import Model, SyncInterval, check_directory


class Persistence(Model):
    """FC-27: the journal."""

    directory: Annotated[Path | None, BeforeValidator(check_directory)] = None
    """The directory of the journal; None = nothing survives the process."""
    sync: SyncInterval = Field(default=0.0, ge=0.0, le=60.0)
    """Seconds between commits, for which no packet waits then; 0 = `commit`: acknowledgements wait for their commit."""
