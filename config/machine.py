"""How much memory this process may take: the limits of its control groups (cgroup v2), else the RAM of the machine."""

from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path("/")
"""Where the system's files are, /proc and /sys among them."""
_GROUPS: Final = Path("sys/fs/cgroup")
_LIMITS: Final = ("memory.max", "memory.high")
"""Past the first a process of the group is killed, past the second it is slowed down."""


class Memory(NamedTuple):
    """What a process may take."""

    bytes: int
    """0 = the system does not say."""
    of: str
    """Whose it is, for people: the file of a limit, or the machine."""


def memory(root: Path = ROOT) -> Memory:
    """The least of all limits. `root`: where the system's files are."""
    limits = [*_limits(root), Memory(_ram(root), "this machine")]
    return min((each for each in limits if each.bytes), default=Memory(0, ""))


def _limits(root: Path) -> list[Memory]:
    """Those of the process's group and of the groups around it: each holds for all that are inside.

    In a container the path may be that of the host, and only the first folder is there: it is the container's.
    """
    folder = root / _GROUPS
    folders = [folder]
    for name in _group(root).strip("/").split("/"):
        if name in ("", ".."):  # a process that has been moved out of what its container can see
            break
        folder /= name
        folders.append(folder)
    found = []
    for each in folders:
        for name in _LIMITS:
            limit = _read(each / name).strip()
            if limit.isdigit():  # `max` = none
                found.append(Memory(int(limit), f"/{(each / name).relative_to(root)}"))
    return found


def _group(root: Path) -> str:
    """The path of the process's group; those of cgroup v1 have numbers."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        if number == "0":
            return rest.removeprefix(":")
    return ""


def _ram(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) * 1024
    return 0


def _read(path: Path) -> str:
    """A file of the system; empty if it is not there."""
    try:
        return path.read_text()
    except OSError:
        return ""
