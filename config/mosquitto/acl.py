"""For whom there is something in an ACL file: by which names it tells clients apart."""

from pathlib import Path
from typing import NamedTuple


class Acl(NamedTuple):
    """What its lines are about. A file that cannot be read may be about anything."""

    names: bool = True
    """Whether a client with a user name may do something else than one without."""
    hidden: tuple[str, ...] = ()
    """Filters that match those topics of its lines that begin with `$`, which `#` does not match [MQTT-4.7.2-1]."""


def look(path: Path) -> Acl:
    """Look at a file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    except OSError:
        text = None
    if text is None:
        return Acl()
    names = False
    hidden = set()
    for line in text.split("\n"):
        word, _, rest = line.strip().partition(" ")
        topic_filter = rest.split(" ", 1)[-1].strip()
        if word in ("topic", "pattern") and topic_filter.startswith("$"):
            hidden.add(topic_filter.partition("/")[0] + "/#")
        names = names or word in ("user", "topic") or (word == "pattern" and "%u" in rest)
    return Acl(names, tuple(sorted(hidden)))
