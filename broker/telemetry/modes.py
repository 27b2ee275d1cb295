"""Who may read the metrics: the broker's user, and the group of their directory if that may read the directory itself.

Never all users of the machine: rows name clients, users and topics.
"""

import os
from pathlib import Path
from typing import Final

_GROUP: Final = 0o050


def make_folder(folder: Path, directory: Path) -> None:
    """Make a folder below `metrics.directory`, and that directory itself, if they are missing. Raises OSError."""
    if folder.is_dir():
        return
    if folder == directory:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        return
    make_folder(folder.parent, directory)
    folder.mkdir(0o700 | directory.stat().st_mode & _GROUP, exist_ok=True)


def create_file(path: Path) -> None:
    """Make an empty file, which the users of its folder may read. Raises OSError."""
    mode = 0o600 | path.parent.stat().st_mode & 0o040
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode))
