"""Packs this package for spark-submit: a zip archive for --py-files, and the main file."""

import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from typing import Final

from spark_jobs.storage import open_storage

ARCHIVE: Final = "spark_jobs.zip"
MAIN: Final = "sluice_report.py"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # constant, so that the same files give the same archive
_SUFFIXES: Final = (".py", ".json", ".toml", ".html", ".css", ".js", ".txt")


def write_bundle(out: str) -> list[str]:
    """Write OUT/spark_jobs.zip and OUT/sluice_report.py; returns their paths.

    Raises:
        StorageError: the folder cannot be written to.
    """
    storage = open_storage(out)
    package = files("spark_jobs")
    storage.write(ARCHIVE, _packed(package))
    storage.write(MAIN, package.joinpath("report.py").read_bytes())
    return [f"{out.rstrip('/')}/{name}" for name in (ARCHIVE, MAIN)]


def _packed(package: Traversable) -> bytes:
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, entry in sorted(_below(package, "spark_jobs")):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.read_bytes())
    return data.getvalue()


def _below(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """Sources and their data files, with their names in the archive."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(_SUFFIXES):
            yield f"{name}/{entry.name}", entry
