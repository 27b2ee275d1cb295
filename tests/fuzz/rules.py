"""Files of rules as targets: ours, and Mosquitto's ACL files."""

import tempfile
from pathlib import Path
from typing import Final

from paho.mqtt.client import topic_matches_sub

from broker.auth.permissions import Permissions, Who
from broker.auth.rule_files import mosquitto_acl
from broker.auth.rules import Rule, RuleSet, from_settings
from config.rules_file import read_rules
from tests.fuzz.raw import Raw, check_message
from tests.support.broker.reference_rules import allowed

CLIENTS: Final = (
    Who(None, frozenset(), "nobody", "", "local"),
    Who("ann", frozenset({"ops"}), "client", "127.0.0.1", "local"),
    Who("a/b", frozenset(), "+", "::1", "other"),
    Who("{client_id}", frozenset({"#", "night"}), "%u", "10.0.0.1", "local"),
)
TOPICS: Final = ("a", "a/ann", "a/b/c", "$SYS/a", "/", "client/{client_id}")
FILTERS: Final = ("#", "a/#", "a/+", "+/ann", "$SYS/#", "/+")
QOS: Final = (0, 1, 2)


class AclFile(Raw):
    """Rules or one mistake, as in Mosquitto; what denies a user everything, anywhere in the file, does so."""

    name = "acl"
    parts = (
        b"user ann\n",
        b"user a/b\n",
        b"topic read a/#\n",
        b"topic write a/+\n",
        b"topic readwrite #\n",
        b"topic deny a/ann\n",
        b"topic $SYS/#\n",
        b"pattern read a/%u/#\n",
        b"pattern deny %c/%u\n",
        b"pattern %c%c%c%c\n",
        b"# comment\n",
        b"topic  a b \n",
        b"user \xff\n",
        b"topic a/{username}\n",
        b"\r\n",
        b"\t",
    )

    def check(self, data: bytes) -> None:
        """Read the file, and decide by it; then with a line that denies everything."""
        text = data.decode(errors="surrogateescape")
        rules = _rules(text)
        if rules is None:
            return
        for who in CLIENTS:
            _check_permissions(Permissions(who, RuleSet(rules).bind(who), False))
        denied = _rules(f"{text}\nuser ann\ntopic deny #\ntopic deny $SYS/#\n")
        assert denied is not None
        permissions = Permissions(CLIENTS[1], RuleSet(denied).bind(CLIENTS[1]), True)
        for topic in TOPICS:
            assert not permissions.may_publish(topic.encode(), 0, False), f"{topic} is denied"
            assert not permissions.may_receive(topic.encode(), 0), f"{topic} is denied"


class RulesFile(Raw):
    """Rules or all mistakes; they decide as ten lines of reference say."""

    name = "rules"
    parts = (
        b"rules:\n",
        b"  - {permit: allow, topics: ['a/#']}\n",
        b"  - permit: deny\n    topics:\n      - a/{username}\n      - '{client_id}/{role}'\n",
        b"    action: publish\n",
        b"    action: subscribe\n",
        b"    retain: true\n",
        b"    qos: [0, 1]\n",
        b"    users: ['a*', '[!x]?']\n",
        b"    roles: [ops, '[']\n",
        b"    client_ids: ['*']\n",
        b"    listeners: [local]\n",
        b"    addresses: [127.0.0.0/8, '::1']\n",
        b"&a ",
        b"*a ",
        b"!!python/object:x ",
        b"[",
        b"{",
        b"? ",
        b"- ",
        b"'\\x00'",
        b'"\\ud800"',
        b"99999999999999999999",
    )

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-fuzz-")
        self._path = Path(self._folder.name) / "rules.yaml"

    def check(self, data: bytes) -> None:
        """Read the file, and compare what it permits."""
        self._path.write_bytes(data)
        try:
            settings = read_rules(self._path)
        except ValueError as error:
            check_message(error, lines=True)
            return
        rules = [from_settings(each) for each in settings]
        for who in CLIENTS:
            permissions = Permissions(who, RuleSet(rules).bind(who), False)
            _check_permissions(permissions)
            known = who._replace(host=who.host or "0.0.0.0")
            for topic in TOPICS:
                for qos in QOS:
                    given = permissions.may_publish(topic.encode(), qos, qos == 1)
                    assert given == allowed(settings, False, known, "publish", topic, qos, qos == 1), topic
                    given = permissions.may_receive(topic.encode(), qos)
                    assert given == allowed(settings, False, known, "subscribe", topic, qos, False), topic


def _rules(text: str) -> list[Rule] | None:
    try:
        return mosquitto_acl.parse(text)
    except ValueError as error:
        check_message(error)
        return None


def _check_permissions(permissions: Permissions) -> None:
    """What is said of filters agrees with what is said of their topics."""
    for wanted in FILTERS:
        for topic in TOPICS:
            if topic_matches_sub(wanted, topic):
                readable = permissions.may_receive(topic.encode(), 1)
                assert readable or not permissions.may_receive_all(wanted.encode(), 1), f"{wanted} holds {topic}"
                assert not readable or permissions.may_receive_some(wanted.encode(), 1), f"{wanted} holds {topic}"
