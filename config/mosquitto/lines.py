"""Reads mosquitto.conf and the files of its include_dir."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.imported.draft import Finding, Line
from config.mosquitto.paths import Paths

MAIN: Final = "mosquitto.conf"

MAX_BYTES: Final = 1024 * 1024
"""The largest file that is read."""

INCLUDE: Final = "include_dir"


def read(path: Path, paths: Paths | None = None) -> tuple[list[Line], list[Finding]]:
    """All lines in the order in which Mosquitto reads them, and what is wrong with files.

    `path`: a file or a directory. Raises OSError, ValueError if the first file cannot be read. Comments and empty lines
    are left out.
    """
    paths = paths or Paths()
    lines: list[Line] = []
    findings: list[Finding] = []
    for line in _read_file(_main(path)):
        if line.name != INCLUDE:
            lines.append(line)
            continue
        if not line.value:
            findings.append(Finding(line, "name the directory", wrong=True))
            continue
        folder = Path(paths.of(line))
        try:
            files = _configurations(folder)
        except (FileNotFoundError, NotADirectoryError):
            findings.append(Finding(line, f"there is no directory {str(folder)!r}", wrong=True))
            continue
        except OSError as error:
            findings.append(Finding(line, f"{folder}: {error.strerror}", wrong=True))
            continue
        for file in files:
            try:
                for included in _read_file(file):
                    if included.name == INCLUDE:
                        findings.append(Finding(included, "Mosquitto reads it in the first file only"))
                    else:
                        lines.append(included)
            except (OSError, ValueError) as error:
                findings.append(Finding(line, f"{file.name}: {error}", wrong=True))
    return lines, findings


def _main(path: Path) -> Path:
    """The first file of a directory."""
    if not path.is_dir():
        return path
    if (path / MAIN).exists():
        return path / MAIN
    found = _configurations(path)
    if len(found) != 1:
        raise OSError(f"{path}: there is no {MAIN} in it, and {len(found)} files *.conf: name the file")
    return found[0]


def _configurations(folder: Path) -> list[Path]:
    """The files *.conf, by name; of one letter the upper case comes first."""
    # Not by glob(), which passes over a folder that may not be read.
    files = [file for file in folder.iterdir() if file.suffix == ".conf" and file.is_file()]
    return sorted(files, key=lambda file: (file.name.lower(), file.name))


def _read_file(path: Path) -> Iterator[Line]:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES} bytes: this cannot be a configuration")
    if (zero := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise ValueError(f"line {line}: byte {zero} is 0: this is not text")
    for number, raw in enumerate(data.decode(errors="replace").split("\n"), 1):
        # As Mosquitto: only a space separates words, and a comment begins at the start of its line.
        text = raw.rstrip("\r").strip(" ")
        if text and not raw.startswith("#"):
            name, _, value = text.partition(" ")
            yield Line(path, number, name, value.lstrip(" "))
