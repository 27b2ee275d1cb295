"""A folder with files that end every process but one that reads them, as pyarrow does on some damage."""

import os
from pathlib import Path
from typing import BinaryIO, Final

from spark_jobs.storage.local import LocalStorage

DEADLY: Final = "deadly.parquet"


class DeadlyStorage(LocalStorage):
    """Only the process that opens the folder survives files of this name."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._survivor = os.getpid()

    def open(self, name: str) -> BinaryIO:
        """See Storage."""
        self._read(name)
        return super().open(name)

    def source(self, name: str) -> Path:
        """See Storage."""
        self._read(name)
        return super().source(name)

    def _read(self, name: str) -> None:
        if name.endswith(DEADLY) and os.getpid() != self._survivor:
            os.abort()
