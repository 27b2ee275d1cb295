"""Where the files are that a configuration names: Mosquitto's paths may be those of a container."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.files import is_there
from config.imported.draft import Line

_ELSEWHERE: Final = (("/mosquitto/config", ""), ("/etc/mosquitto", ""), ("/mosquitto", ""), ("/mosquitto", ".."))
"""Folders of Mosquitto's image and packages, and where their files often lie, seen from the file that names them."""


@dataclass(frozen=True)
class Paths:
    """Finds files by the paths that lines name."""

    moved: tuple[tuple[str, str], ...] = ()
    """Folders as Mosquitto sees them, and where they are here."""

    def of(self, line: Line) -> str:
        """The path that a line names, absolute.

        A relative one is beside the file of the line if it is there, else in the working directory: Mosquitto reads it
        from its own, which is not known here. An absolute one that is not there may be that of a container.
        """
        path = Path(line.value)
        for folder, here in self.moved:
            if path.is_relative_to(folder):
                return str((Path(here) / path.relative_to(folder)).absolute())
        beside = line.file.absolute().parent / path
        if path.is_absolute():
            return str(path if is_there(path) else _in_place_of(path, line) or path)
        return str(path.absolute() if is_there(path) and not is_there(beside) else beside)


def mapping(text: str) -> tuple[str, str]:
    """What `FOLDER=HERE` says. Raises ValueError."""
    folder, equals, here = text.partition("=")
    if not (equals and here and Path(folder).is_absolute()):
        raise ValueError(f"found {text!r:.100}: write FOLDER=HERE, such as /mosquitto=. with an absolute FOLDER")
    return folder, here


def _in_place_of(path: Path, line: Line) -> Path | None:
    """The file that a path of a container stands for, if it is found beside the file of the line."""
    for folder, place in _ELSEWHERE:
        if path.is_relative_to(folder):
            found = (line.file.absolute().parent / place).resolve() / path.relative_to(folder)
            if is_there(found):
                return found
    return None
