"""Reads acl.conf, rules of EMQX as Erlang terms, and makes rules of ours of them."""

import re
from collections.abc import Iterator
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|%[^\n]*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<atom>'[^']*'|[a-z][A-Za-z0-9_]*)"""
    r"""|(?P<number>\d+)|(?P<sign>[{}\[\],.])""",
    re.ASCII,
)
_NAME: Final = re.compile(r"\^([A-Za-z0-9_.@:-]+)\$", re.ASCII)
"""A regular expression that is just a name; a point is meant as one."""

_EVERYTHING: Final = ["#", "$SYS/#"]
_MOST_NESTED: Final = 20
_WIDE: Final = "rules are about topics, and a wide subscription gets what its client may receive"

Rule = dict[str, Any]


class CannotSayError(ValueError):
    """A rule that ours cannot say."""


def rules(text: str) -> Iterator[tuple[str, Rule | None, str]]:
    """Each term: as written, our rule (None = there is none), and what has to be said about it.

    A rule that denies, and that ours cannot say, denies all clients; one that allows is left out. So nobody may do more
    than before. Raises ValueError if the file has no terms.
    """
    for source, term in _terms(text):
        if not isinstance(term, tuple) or len(term) not in (2, 4) or term[0] not in ("allow", "deny"):
            raise ValueError(f'found {source!r:.60}: write a rule such as {{allow, all, publish, ["a/#"]}}.')
        if len(term) == 2:
            yield source, {"permit": term[0], "topics": _EVERYTHING}, ""
            continue
        yield source, *_rule(*term)


def _rule(permit: str, who: Any, action: Any, topics: Any) -> tuple[Rule | None, str]:
    try:
        filters, left = _topics(topics if isinstance(topics, list) else [topics])
        rule: Rule = {"permit": permit, "topics": filters, **_action(action)}
    except CannotSayError as error:
        return None, str(error)
    if not filters:
        return None, left
    try:
        return rule | _who(who), left
    except CannotSayError as error:
        return (rule, f"{error}: it denies all clients") if permit == "deny" else (None, str(error))


def _who(who: Any) -> Rule:
    if who == "all":
        return {}
    if isinstance(who, tuple) and len(who) == 2:
        kind, value = who
        if kind in ("ipaddr", "ipaddrs"):
            return {"addresses": value if isinstance(value, list) else [value]}
        if kind == "and" and isinstance(value, list):
            parts = [_who(each) for each in value]
            if sum(map(len, parts)) == len({key for part in parts for key in part}):
                return {key: names for part in parts for key, names in part.items()}
        key = {"user": "users", "username": "users", "client": "client_ids", "clientid": "client_ids"}.get(kind)
        if key is not None:
            return {key: [_name(value)]}
    raise CannotSayError("the condition has no counterpart: rules have users, client_ids and addresses")


def _name(value: Any) -> str:
    if isinstance(value, str):
        return re.sub(r"([*?\[])", r"[\1]", value)
    match = _NAME.fullmatch(value[1]) if isinstance(value, tuple) and len(value) == 2 and value[0] == "re" else None
    if match is None:
        raise CannotSayError("rules have patterns with * and ?, not regular expressions")
    return match[1]


def _action(action: Any) -> Rule:
    if action in ("all", "publish", "subscribe"):
        return {} if action == "all" else {"action": action}
    if not isinstance(action, tuple) or len(action) != 2 or not isinstance(action[1], list):
        raise CannotSayError("rules are about publish, subscribe or all")
    rule = _action(action[0])
    options = [each for each in action[1] if isinstance(each, tuple) and len(each) == 2]
    for name, value in options:
        if name == "qos":
            rule["qos"] = [int(each) for each in (value if isinstance(value, list) else [value])]
        elif name == "retain" and value != "all":
            rule["retain"] = value == "true"
    return rule


def _topics(topics: list[Any]) -> tuple[list[str], str]:
    """Topic filters, and what is to be said of those that are left out."""
    filters, left = [], ""
    for topic in topics:
        exact = isinstance(topic, tuple) and len(topic) == 2 and topic[0] == "eq"
        text = topic[1] if exact else topic
        if not isinstance(text, str):
            raise CannotSayError("topics are texts")
        if exact and ("#" in text or "+" in text):
            left = f"{{eq, {text}}} is left out: {_WIDE}"
            continue
        text = text.replace("${username}", "{username}").replace("${clientid}", "{client_id}")
        text = text.replace("%u", "{username}").replace("%c", "{client_id}")
        if "${" in text:
            raise CannotSayError("topics have {username}, {client_id} and {role} only")
        filters.append(text)
    return filters, left


def _terms(text: str) -> Iterator[tuple[str, Any]]:
    """Each term that ends with a point, as written and as Python's tuples, lists and texts."""
    tokens: list[str] = []
    start = end = position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"found {text[position : position + 20]!r}: this is not a term of Erlang")
        position = match.end()
        if match["space"]:
            continue
        start = start if tokens else match.start()
        if match[0] == ".":
            if tokens:
                remaining = iter(tokens)
                term, _ = _term(remaining, 0)
                if (extra := next(remaining, None)) is not None:
                    raise ValueError(f"found {extra!r:.40} behind a rule: it ends with a point")
                yield text[start:end], term
            tokens = []
        else:
            tokens.append(match[0])
            end = position
    if tokens:
        raise ValueError(f"found {text[start : start + 40]!r}: a rule ends with a point")


def _term(tokens: Iterator[str], depth: int) -> tuple[Any, str]:
    """A term, or the sign that closes a list; and what it begins with."""
    if depth > _MOST_NESTED:
        raise ValueError("found terms within terms within terms: this is not a rule")
    sign = next(tokens, ".")
    if sign in "{[":
        items = []
        while True:
            item, last = _term(tokens, depth + 1)
            if last in "]}.":
                break
            if last != ",":
                items.append(item)
        if last != {"{": "}", "[": "]"}[sign]:
            raise ValueError(f"found {last!r}: a bracket is not closed")
        return (tuple(items) if sign == "{" else items), sign
    if sign[0] == '"':
        return re.sub(r"\\(.)", r"\1", sign[1:-1]), '"'
    return sign.strip("'"), sign
