"""For whom there is something in an ACL file: by which names it tells clients apart."""

from pathlib import Path
from typing import NamedTuple


class Acl(NamedTuple):
    """What its lines are about. A file that cannot be read may be about anything."""

    names: bool = True
    """Whether a client with a user name may do something else than one without."""
    nameless: bool = True
    """Whether it allows anything to a client without a user name."""


def look(path: Path) -> Acl:
    """Look at a file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    except OSError:
        text = None
    if text is None:
        return Acl()
    names = nameless = user = False
    for line in text.split("\n"):
        word, _, rest = line.strip().partition(" ")
        allows = rest.split(" ", 1)[0] != "deny"
        if word == "user":
            user = names = True
        elif word == "topic":
            names = True
            nameless = nameless or (allows and not user)
        elif word == "pattern":
            names = names or "%u" in rest
            nameless = nameless or (allows and "%u" not in rest)
    return Acl(names, nameless)
