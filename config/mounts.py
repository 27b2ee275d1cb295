"""Files that are mounted by themselves, as `docker run -v FILE:FILE` and `subPath` of Kubernetes do it.

Such a mount stays with the file that was there when it was made. One that replaces it by rename, as editors, `sluice
user` and Kubernetes do, is not seen: the old one can still be read, although it is in no folder any more. A folder that
is mounted stays in the same way, if another folder takes its place. Where Linux says what is mounted, it also says
under which name the mounted file or folder is now.
"""

import os
import re
from pathlib import Path as FilePath
from typing import Final, NamedTuple

from pydantic import BaseModel

from config.layers import Path, dotted

MOUNTS: Final = "/proc/self/mountinfo"

ALONE: Final = (
    "is mounted by itself: a file that takes its place where it comes from is not seen here, so that users who are "
    "removed would stay; mount its folder instead"
)
_REPLACED: Final = (
    "is mounted by itself, and has been replaced, moved or removed where it comes from: what can be read here is the "
    "old one; mount its folder instead, and start the broker again"
)
_FOLDER_REPLACED: Final = (
    "is in a folder that has been replaced, moved or removed where it is mounted from: what can be read here is the "
    "old one; mount the new folder, and start the broker again"
)

_GONE: Final = "//deleted"
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """By what a file can be reached."""

    number: int
    source: str
    """Where in its file system the mounted file or folder is from."""
    alone: bool
    """Whether the file itself is mounted, and not a folder."""


def mount_of(path: FilePath) -> Mount | None:
    """The mount by which a file is reached; None if that cannot be seen."""
    try:
        place = os.fsencode(os.path.realpath(path))
        with open(MOUNTS, "rb") as file:  # noqa: PTH123 - a constant, and no file that somebody has named
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return None
    found, longest = None, 0
    for line in lines:
        fields = line.split(b" ", 5)
        if len(fields) <= 5:
            continue
        point = _plain(fields[4])
        if len(point) >= longest and (place + b"/").startswith(point.rstrip(b"/") + b"/"):
            longest = len(point)  # of several at one place the last one counts
            found = Mount(int(fields[0]), os.fsdecode(_plain(fields[3])), point == place)
    return found


def is_mounted_alone(path: FilePath) -> bool:
    """Whether a file is mounted by itself."""
    mount = mount_of(path)
    return mount is not None and mount.alone


def replaced(path: FilePath, before: Mount | None) -> str:
    """Why what can be read is not the file of that name any more; empty if it is. `before`: how it was mounted."""
    now = mount_of(path)
    if before is None or now is None or now.number != before.number:
        return ""
    if now.source == before.source and not now.source.endswith(_GONE):
        return ""
    return _REPLACED if now.alone else _FOLDER_REPLACED


def named_files(config: BaseModel, file: FilePath | None = None) -> dict[str, FilePath]:
    """The files that are there of those that a configuration names, and its own (with an empty key)."""
    named = dict(_files(config, ()))
    if file is not None:
        named[""] = file
    return {key: path for key, path in named.items() if path.is_file()}


def mounted_alone(config: BaseModel, file: FilePath | None = None) -> dict[str, FilePath]:
    """Those of them that are mounted by themselves."""
    return {key: path for key, path in named_files(config, file).items() if is_mounted_alone(path)}


def _files(value: object, path: Path) -> "list[tuple[str, FilePath]]":
    if isinstance(value, FilePath):
        return [(dotted(path), value)]
    parts: list[tuple[str | int, object]] = []
    if isinstance(value, BaseModel):
        parts = [(name, getattr(value, name)) for name in type(value).model_fields]
    elif isinstance(value, list):
        parts = list(enumerate(value))
    return [each for name, item in parts for each in _files(item, (*path, name))]


def _plain(text: bytes) -> bytes:
    """A path without its escapes: mountinfo has spaces as \\040."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), text)
