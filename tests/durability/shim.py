"""Loads shim.c into a broker: it records what the broker does to its files, and lets calls fail."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")

_NAME: Final = Struct("<cH")
_DATA: Final = Struct("<qI")


class MissingError(Exception):
    """This machine lacks something; the text says what."""


def build(folder: Path) -> Path:
    """Compile the shim. Raises MissingError if there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingError("there is no C compiler (Debian: apt install gcc libc6-dev)")
    library = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"shim.c does not compile:\n{done.stderr}")
    return library


def environment(library: Path, directory: Path, **settings: str) -> dict[str, str]:
    """The environment of a broker that records files below `directory`; `settings` as in shim.c, without `SHIM_`."""
    own = {f"SHIM_{name.upper()}": value for name, value in settings.items()}
    return {"LD_PRELOAD": str(library), "SHIM_DIRECTORY": str(directory)} | own


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `kind`:

    o, w, d, t, s, u, r, m: a file is created, written at offset `number`, written so that `data` is synced, cut to size
    `number`, synced, removed, renamed to `data`; a directory is made. p: a process begins. a: a client is connected to
    socket `number`; <, >: it sends, it is sent `data`. !: a call has failed.
    """

    kind: str
    name: str
    number: int
    data: bytes


def read(log: Path) -> Iterator[Event]:
    """The events of a process, in order; an incomplete last one is left out."""
    content = log.read_bytes()
    position = 0
    while position + _NAME.size <= len(content):
        kind, length = _NAME.unpack_from(content, position)
        position += _NAME.size
        name = content[position : position + length].decode()
        position += length
        if position + _DATA.size > len(content):
            return
        number, length = _DATA.unpack_from(content, position)
        position += _DATA.size
        if position + length > len(content):
            return
        yield Event(kind.decode(), name, number, content[position : position + length])
        position += length
