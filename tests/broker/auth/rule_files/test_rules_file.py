"""Files of rules: what is in them, mistakes, and changes in a running broker, with users who log in."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import config
from broker.auth.rule_files.rules_file import read
from config import ConfigError
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.conformance.scram import settings
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.guarded import authenticated
from tests.support.broker.logins import PASSWORDS, log_in, sections, write_users
from tests.support.process import Address
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

DENIED = reason_codes.NOT_AUTHORIZED


def write(path: Path, *rules: dict[str, Any]) -> Path:
    """Write a file with these rules."""
    path.write_text(yaml.safe_dump({"rules": list(rules)}))
    return path


def enter(address: Address, user: str, client_id: str = "", version: int = 5) -> WireClient:
    """A client that has logged in."""
    client = log_in(address, user, PASSWORDS[user], version, client_id)
    assert client.expect(Connack).reason_code == 0
    return client


def publish(client: WireClient, topic: str) -> int:
    """The reason code of PUBACK."""
    client.send(Publish(topic.encode(), b"x", 1, packet_id=1))
    return client.expect(Puback).reason_code


def test_users_and_roles(start: Start, tmp_path: Path) -> None:
    """Users have their own topics and those of their roles, and may read what is theirs; the rest is denied."""
    users = write_users(tmp_path / "users", roles={"ann": ("ops", "night")})
    rules = [
        {"permit": "allow", "topics": ["home/{username}/#", "team/{role}"]},
        {"permit": "allow", "topics": ["all"], "users": ["*"], "action": "publish"},
    ]
    address = start(sections=sections(users, authorization={"rules": rules})).address()
    with enter(address, "ann") as ann, enter(address, "ben", version=4) as ben:
        codes = [publish(ann, topic) for topic in ("home/ann/x", "home/ben/x", "team/ops", "team/day", "all", "other")]
        assert codes == [0x10, DENIED, 0x10, DENIED, 0x10, DENIED]
        ann.subscribe("#")
        ben.send(Subscribe(1, [Subscription("home/ann/#"), Subscription("home/ben/#"), Subscription("team/ops")]))
        assert ben.expect(Suback).reason_codes == [0x80, 0, 0x80]
        for topic in ("home/ben/x", "all", "home/ann/y"):
            ben.send(Publish(topic.encode(), b"x", 1, packet_id=1))
        assert {type(ben.receive()).__name__ for _ in range(4)} == {"Puback", "Publish"}
        ann.expect_nothing_more()


def test_roles_of_scram(start: Start) -> None:
    """Users of SCRAM have roles too."""
    user = settings()["scram"][0] | {"roles": ["ops"]}
    rules = [{"permit": "allow", "topics": ["ops"], "roles": ["ops"]}]
    section = {"allow_anonymous": True, "authentication": {"scram": [user]}, "authorization": {"rules": rules}}
    address = start(sections=section).address()
    with authenticated(address) as client, WireClient(address, 5) as anyone:
        assert publish(client, "ops") == 0x10
        anyone.connect()
        assert publish(anyone, "ops") == DENIED


def test_users_without_rules(start: Start, tmp_path: Path) -> None:
    """As long as there are no rules, users may do everything; with default: deny nothing."""
    users = write_users(tmp_path / "users")
    for default, code in ((None, 0x10), ("deny", DENIED)):
        address = start(sections=sections(users, authorization={"default": default})).address()
        with enter(address, "ann") as ann:
            assert publish(ann, "a") == code


def test_order_of_sources(start: Start, tmp_path: Path) -> None:
    """First the rules of the configuration, then those of the file, then Mosquitto's file."""
    (tmp_path / "acl").write_text("topic readwrite #\n")
    authorization = {
        "rules": [{"permit": "allow", "topics": ["a"]}],
        "rules_file": str(write(tmp_path / "rules", {"permit": "deny", "topics": ["a", "b"]})),
        "acl_file": str(tmp_path / "acl"),
    }
    address = start(sections={"authorization": authorization}).address()
    with WireClient(address, 5) as client:
        client.connect()
        assert [publish(client, topic) for topic in ("a", "b", "c")] == [0x10, DENIED, 0x10]


def test_changes_while_running(start: Start, tmp_path: Path) -> None:
    """A change acts on connected clients within seconds; a mistake is logged with its line, and changes nothing."""
    path = write(tmp_path / "rules.yaml", {"permit": "deny", "topics": ["a"]})
    broker = start(sections={"authorization": {"rules_file": str(path)}})
    with WireClient(broker.address(), 5) as client:
        client.connect()
        assert publish(client, "a") == DENIED
        write(path, {"permit": "deny", "topics": ["b"]})
        wait_until(lambda: publish(client, "a") == 0x10, "the new rules apply")
        assert publish(client, "b") == DENIED
        write(path, {"permit": "allow", "topics": ["b"]}, {"permit": "perhaps", "topics": ["b"]})
        (event,) = wait_for_event(broker, "file_not_read")
        assert f"{path}:5: rules[1].permit: found 'perhaps': write allow or deny" in event["detail"]
        assert publish(client, "b") == DENIED
        write(path)
        wait_until(lambda: publish(client, "b") == 0x10, "the rules are right again")
    assert len(events(broker, "file_not_read")) == 1


def test_session_of_another_user(start: Start, tmp_path: Path) -> None:
    """Who connects with another user's client id gets a new session: what waits there may not be for its eyes."""
    address = start(sections=sections(write_users(tmp_path / "users"))).address()
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 100}

    def resume(user: str) -> bool:
        with WireClient(address, 5) as client:
            connect = Connect("id", False, username=user, password=PASSWORDS[user].encode(), properties=kept, version=5)
            client.send(connect)
            return client.expect(Connack).session_present

    assert [resume(user) for user in ("ann", "ann", "ben", "ann", "ann")] == [False, True, False, False, True]


@pytest.mark.parametrize("version", [4, 5])
def test_session_of_another_user_stays(start: Start, tmp_path: Path, version: int) -> None:
    """With foreign_sessions: refuse nobody ends the session of another user, who is connected or away."""
    own = sections(write_users(tmp_path / "users"), authorization={"foreign_sessions": "refuse"})
    address = start(sections=own).address()
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 100}
    refused = reason_codes.NOT_AUTHORIZED if version == 5 else 5

    def enter(client: WireClient, user: str, clean: bool = False) -> Connack:
        own = kept if client.version == 5 else None
        password = PASSWORDS[user].encode()
        client.send(Connect("id", clean, username=user, password=password, properties=own, version=client.version))
        return client.expect(Connack)

    with WireClient(address, 5) as ann:
        assert enter(ann, "ann").reason_code == 0
        with WireClient(address, version) as ben:
            assert enter(ben, "ben", clean=True).reason_code == refused
        ann.expect_nothing_more()
    with WireClient(address, version) as ben:
        assert enter(ben, "ben").reason_code == refused
    with WireClient(address, 5) as ann:
        assert enter(ann, "ann").session_present


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [{permit: deny}]", "rules[0].topics: is missing"),
        ("rules: [{permit: deny, topics: []}]", "rules[0].topics"),
        ("rules: [{permit: deny, topics: ['a#']}]", "write a topic filter"),
        ("rules: [{permit: deny, topics: ['{user}/x']}]", "found '{user}': write {username}, {client_id} or {role}"),
        ("rules: [{permit: deny, topics: [a], topic: a}]", "did you mean 'topics'?"),
        ("rules: [{permit: deny, topics: [a], addresses: [10.1.0.0/8]}]", "write an IP address, or a network"),
        ("rules: [{permit: deny, topics: [a], qos: [3]}]", "at most 2"),
        ("rules: [{permit: deny, topics: [a], qos: [true]}]", "qos"),
        ("rules: [{permit: deny, topics: [a], users: ['']}]", "found an empty name"),
        ("rules: [{permit: deny, topics: [a], action: subscribe, retain: true}]", "leave it out"),
        ("- permit: deny", "found no keys"),
        ("rule: []", "did you mean 'rules'?"),
        ("rules: [", "is not YAML"),
        ("", "is empty: write `rules: []`"),
        ("# nothing yet\n", "is empty: write `rules: []`"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    """Every mistake says where it is and what is expected; `sluice config check` finds it too."""
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    file = tmp_path / "sluice.yaml"
    file.write_text(f"authorization: {{rules_file: {path}}}")
    assert [str(problem) for problem in config.check(file)] == [str(problem) for problem in caught.value.problems]


def test_no_rules(tmp_path: Path) -> None:
    """A file can say that it has none."""
    path = tmp_path / "rules.yaml"
    path.write_text("rules: []\n")
    assert read(path) == []


def test_fifo(tmp_path: Path) -> None:
    """What is no file is a mistake, which nobody waits for."""
    os.mkfifo(tmp_path / "rules.yaml")
    with pytest.raises(ConfigError, match="is not a regular file"):
        read(tmp_path / "rules.yaml")


def test_file_that_becomes_empty(start: Start, tmp_path: Path) -> None:
    """The rules stay while an editor has emptied their file."""
    path = write(tmp_path / "rules.yaml", {"permit": "deny", "topics": ["a"]})
    broker = start(sections={"authorization": {"rules_file": str(path), "default": "allow"}})
    with WireClient(broker.address(), 5) as client:
        client.connect()
        path.write_text("")
        (event,) = wait_for_event(broker, "file_not_read")
        assert "is empty: write `rules: []` if there are to be none" in event["detail"]
        assert publish(client, "a") == DENIED
        write(path)
        wait_until(lambda: publish(client, "a") == 0x10, "there are no rules")
