"""For whom there is something in an ACL file: by which names it tells clients apart."""

from pathlib import Path
from typing import NamedTuple


class Acl(NamedTuple):
    """What its lines are about. A file that cannot be read may be about anything."""

    names: bool = True
    """Whether a client with a user name may do something else than one without."""
    nameless: bool = True
    """Whether it allows anything to a client without a user name."""
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
    names = nameless = user = False
    hidden = set()
    for line in text.split("\n"):
        word, _, rest = line.strip().partition(" ")
        allows = rest.split(" ", 1)[0] != "deny"
        topic_filter = rest.split(" ", 1)[-1].strip()
        if word in ("topic", "pattern") and topic_filter.startswith("$"):
            hidden.add(topic_filter.partition("/")[0] + "/#")
        if word == "user":
            user = names = True
        elif word == "topic":
            names = True
            nameless = nameless or (allows and not user)
        elif word == "pattern":
            names = names or "%u" in rest
            nameless = nameless or (allows and "%u" not in rest)
    return Acl(names, nameless, tuple(sorted(hidden)))
