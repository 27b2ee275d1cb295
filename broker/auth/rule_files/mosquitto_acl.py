"""ACL files of Mosquitto.

    topic [read|write|readwrite|deny] FILTER     about clients without a user name, above the first `user`
    user NAME                                    what follows is about this user
    topic ...
    pattern [read|write|readwrite|deny] FILTER   about all; %u stands for the user name, %c for the client id

Of each user's lines those that deny come first, then those that allow; then the patterns, in the same order.
"""

import re
from pathlib import Path
from typing import Final

from broker.auth.permissions import QOS, QOS_RETAIN
from broker.auth.rules import CLIENT_ID, USERNAME, Names, Rule, Template

KEY: Final = "authorization.acl_file"

_ACCESS: Final = {"read": (True, False, True), "write": (True, True, False), "readwrite": (True, True, True)}
_DENY: Final = (False, True, True)
_PLACEHOLDER: Final = re.compile("(%[uc])")
_NOT_UTF8: Final = re.compile("[\ud800-\udfff]")
_WRONG_WILDCARD: Final = re.compile(r"[^/][+#]|[+#][^/]|#/")


class _Lines:
    """The rules of one user, of clients without one, or of patterns."""

    def __init__(self) -> None:
        self.denied: list[Rule] = []
        self.allowed: list[Rule] = []

    def add(self, topic_filter: Template, access: tuple[bool, bool, bool]) -> Rule:
        allow, publish, subscribe = access
        rule = Rule(allow, QOS_RETAIN if publish else 0, QOS if subscribe else 0, [topic_filter])
        (self.allowed if allow else self.denied).append(rule)
        return rule

    def rules(self) -> list[Rule]:
        """In their order, without those that are about no topic of MQTT, because their filters are not UTF-8."""
        return [rule for rule in (*self.denied, *self.allowed) if not any(map(_NOT_UTF8.search, rule.filters[0]))]


def read(path: Path) -> list[Rule]:
    """Read the rules. Raises OSError; ValueError for the first mistake, as Mosquitto stops there."""
    return parse(path.read_text(encoding="utf-8", errors="surrogateescape"))


def parse(text: str) -> list[Rule]:
    """The rules of a file. Raises ValueError for a mistake."""
    users: dict[str | None, _Lines] = {}
    patterns = _Lines()
    user: str | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        word, _, rest = line.lstrip(" ").partition(" ")
        if not word or line.startswith("#"):
            continue
        rest = rest.strip()
        if word == "user" and rest:
            user = rest
        elif word == "topic" and rest:
            topic_filter, access = _topic(rest, number)
            rule = users.setdefault(user, _Lines()).add([topic_filter], access)
            if user is None:
                rule.anonymous = True
            else:
                rule.users = Names.of(user)
        elif word == "pattern" and rest:
            topic_filter, access = _topic(rest, number)
            rule = patterns.add(_template(topic_filter), access)
            rule.pattern = True
        else:
            raise ValueError(f"line {number}: found {line!r:.100}: write user NAME, topic or pattern with a filter")
    return [rule for lines in users.values() for rule in lines.rules()] + patterns.rules()


def _template(topic_filter: str) -> Template:
    """The filter of a pattern. What is a placeholder in rules is text here."""
    pieces = _PLACEHOLDER.split(topic_filter)
    pieces[1::2] = [USERNAME if piece == "%u" else CLIENT_ID for piece in pieces[1::2]]
    return pieces


def _topic(rest: str, number: int) -> tuple[str, tuple[bool, bool, bool]]:
    """The filter and what it is about of a line's rest."""
    first, _, topic_filter = rest.partition(" ")
    if not topic_filter:
        topic_filter, access = first, _ACCESS["readwrite"]
    elif first == "deny":
        access = _DENY
    elif first in _ACCESS:
        access = _ACCESS[first]
    else:
        raise ValueError(f"line {number}: found {first!r:.100}: write read, write, readwrite or deny")
    topic_filter = topic_filter.strip()
    if _WRONG_WILDCARD.search(topic_filter):
        raise ValueError(f"line {number}: found {topic_filter!r:.100}: write a topic filter")
    return topic_filter, access
