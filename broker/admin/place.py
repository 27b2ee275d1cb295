"""Where the admin socket is: a path that is configured, or one that broker and `sluice top` find by themselves."""

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.admin import CHOSEN, LONGEST_SOCKET
from config.models import Config

FOLDER: Final = "sluice"


@dataclass(frozen=True)
class Place:
    """A path, and whether it is one of our own choosing."""

    path: Path
    chosen: bool = False


def place(config: Config) -> Place | None:
    """Where this configuration has the socket; None = it has none. Raises OSError where there is nowhere to put it."""
    wanted = config.admin.socket
    if wanted is None:
        return None
    if wanted != CHOSEN:
        return Place(Path(wanted))
    return Place(default_places(config.node_name)[0], chosen=True)


def default_places(node_name: str) -> list[Path]:
    """Where the socket of a broker of this user is by default; which one depends on the environment that it has."""
    folders = [Path(tempfile.gettempdir(), f"{FOLDER}-{os.geteuid()}")]
    runtime = _runtime_folder()
    if runtime is not None:
        folders.insert(0, runtime / FOLDER)
    return [folder / f"{node_name}.sock" for folder in folders]


def _runtime_folder() -> Path | None:
    """$XDG_RUNTIME_DIR, if it is this user's: `su` may leave somebody else's behind."""
    path = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if not path.is_absolute():
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return path if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() else None


def check_length(path: Path) -> None:
    """Raise OSError for what is too long for a Unix socket."""
    size = len(os.fsencode(path))
    if size > LONGEST_SOCKET:
        raise OSError(f"{path} has {size} bytes, a socket's path at most {LONGEST_SOCKET}: set admin.socket")
