"""Files that are mounted by themselves, as `docker run -v FILE:FILE` and `subPath` of Kubernetes do it.

Such a mount stays with the file that was there when it was made. One that replaces it by rename, as editors, `sluice
user` and Kubernetes do, is not seen: the old one can still be read, although it is in no folder any more. Where Linux
says what is mounted, it also says under which name the mounted file is now.
"""

import os
import re
from pathlib import Path as FilePath
from typing import Final

from pydantic import BaseModel

from config.layers import Path, dotted

MOUNTS: Final = "/proc/self/mountinfo"

ALONE: Final = (
    "is mounted by itself: a file that takes its place where it comes from is not seen here, so that users who are "
    "removed would stay; mount its folder instead"
)
REPLACED: Final = (
    "is mounted by itself, and has been replaced, moved or removed where it comes from: what can be read here is the "
    "old one; mount its folder instead, and start the broker again"
)

_GONE: Final = "//deleted"
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


def mounted_from(path: FilePath) -> str | None:
    """Where in its file system a file is from that is mounted by itself; None if it is not, or that cannot be seen."""
    try:
        place = os.fsencode(os.path.realpath(path))
        with open(MOUNTS, "rb") as file:  # noqa: PTH123 - a constant, and no file that somebody has named
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return None
    found = None
    for line in lines:
        fields = line.split(b" ", 5)
        if len(fields) > 5 and _plain(fields[4]) == place:
            found = os.fsdecode(_plain(fields[3]))  # of several at one place the last one counts
    return found


def is_replaced(path: FilePath, before: str | None) -> bool:
    """Whether a file that is mounted by itself is no longer the one of that name; `before`: from where it was."""
    if before is None:
        return False
    now = mounted_from(path)
    return now is not None and (now != before or now.endswith(_GONE))


def mounted_alone(config: BaseModel, file: FilePath | None = None) -> dict[str, FilePath]:
    """The files that a configuration names, and its own (with an empty key), that are mounted by themselves."""
    named = dict(_files(config, ()))
    if file is not None:
        named[""] = file
    return {key: path for key, path in named.items() if path.is_file() and mounted_from(path) is not None}


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
