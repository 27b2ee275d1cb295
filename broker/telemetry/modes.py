"""Who may read the metrics: the broker's user, and the group of their directory if that may read the directory itself.

Never all users of the machine: rows name clients, users and topics.
"""

import os
import stat
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
    above = folder.parent.stat()
    shared = above.st_mode & _GROUP
    if above.st_mode & stat.S_ISGID:  # the system gives it the group, and this bit, which chmod might take away
        folder.mkdir(0o700 | shared, exist_ok=True)
        return
    folder.mkdir(0o700, exist_ok=True)
    if shared:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _share(opened, above.st_gid, 0o700 | shared)
        finally:
            os.close(opened)


def create_file(path: Path) -> None:
    """Make an empty file, which the users of its folder may read. Raises OSError."""
    above = path.parent.stat()
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if above.st_mode & 0o040:
            _share(opened, above.st_gid, 0o640)
    finally:
        os.close(opened)


def left_out(folder: Path, directory: Path) -> str:
    """Why the group that may read `metrics.directory` cannot read a folder in it; empty = it can. Raises OSError."""
    whole = directory.stat()
    group, wanted = whole.st_gid, whole.st_mode & _GROUP
    if not wanted & 0o040:
        return ""
    below = [each for each in (folder, *folder.parents) if directory in each.parents]
    for each in reversed(below):
        found = each.stat()
        if found.st_gid != group or found.st_mode & wanted != wanted:
            remedy = f"add the broker's user to it, then `chgrp -R {group} {directory}; chmod -R g+rX {directory}`"
            return f"group {group} may read {directory}, but not {each}: {remedy}"
    return ""


def _share(opened: int, group: int, mode: int) -> None:
    """Let this group read it, and no other one: if it cannot be given to the group, its mode stays."""
    try:
        if os.fstat(opened).st_gid != group:
            os.fchown(opened, -1, group)
    except OSError:
        return  # the broker is no member; `left_out` tells
    os.fchmod(opened, mode)
