"""Packing this package for spark-submit: a zip archive for --py-files and the main file beside it."""

import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from spark_jobs.tables import write_whole

ARCHIVE: Final = "spark_jobs.zip"
MAIN: Final = "sluice_report.py"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the zip format's first day: the same files give the same archive
_SUFFIXES: Final = (".py", ".json", ".css")


def write_bundle(out: Path) -> list[Path]:
    """Write OUT/spark_jobs.zip and OUT/sluice_report.py; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    package = files("spark_jobs")
    write_whole(out / ARCHIVE, lambda path: _pack(package, path))
    write_whole(out / MAIN, lambda path: path.write_bytes(package.joinpath("report.py").read_bytes()))
    return [out / ARCHIVE, out / MAIN]


def _pack(package: Traversable, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in sorted(package.iterdir(), key=lambda item: item.name):
            if entry.name.endswith(_SUFFIXES):
                info = zipfile.ZipInfo(f"spark_jobs/{entry.name}", _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, entry.read_bytes())
