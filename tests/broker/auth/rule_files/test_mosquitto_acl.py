"""Mosquitto's ACL files: the same decisions as Mosquitto's own, and what is none."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.auth.rule_files.mosquitto_acl import parse, read
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.brokers import TCP_ONLY, find_mosquitto, start_mosquitto, start_sluice
from tests.support.process import Address
from tests.support.wire import WireClient

FILE = """\
# clients without a user name
topic read public/#
topic write inbox

user ann
topic readwrite ann/#
topic deny ann/shut/#
topic public/+

user ben
topic read #
topic deny $SYS/#
topic write ann/ben
user ann
topic write later

pattern read pattern/%u/#
pattern write pattern/%c/x
pattern deny pattern/+/never
pattern readwrite %u and %c/y
pattern   read   odd name
"""
USERS = (None, "ann", "ben", "ned", "a+b")
CLIENT_IDS = ("c1", "c/1", "c#")
TOPICS = (
    "public/a",
    "public/a/b",
    "inbox",
    "ann/a",
    "ann/shut",
    "ann/shut/x",
    "ann/ben",
    "later",
    "pattern/ann/a",
    "pattern/ben",
    "pattern/c1/x",
    "pattern/c/1/x",
    "pattern/ned/never",
    "ned and c1/y",
    "odd name",
    "nowhere",
)
PASSWORD = "x"


def enter(address: Address, user: str | None, client_id: str) -> WireClient:
    """A client that has been let in."""
    client = WireClient(address, 5)
    password = None if user is None else PASSWORD.encode()
    client.send(Connect(client_id, True, username=user, password=password, version=5))
    assert client.expect(Connack).reason_code == 0
    return client


def decisions(address: Address) -> dict[tuple[str | None, str, str], tuple[bool, bool]]:
    """What each client may do with each topic: publish, and receive by a subscription to it."""
    found = {}
    for user, client_id in itertools.product(USERS, CLIENT_IDS):
        with enter(address, user, client_id) as client:
            for topic in TOPICS:
                client.send(Publish(topic.encode(), b"x", 1, packet_id=1))
                found[user, client_id, topic] = client.expect(Puback).reason_code < 0x80, False
    writers = [case for case, (publish, _) in found.items() if publish]
    for user, client_id in itertools.product(USERS, CLIENT_IDS):
        with enter(address, user, client_id) as client:
            client.send(Subscribe(1, [Subscription("#")]))
            client.expect(Suback)
            # One writer for each topic, with another client id: else it would take over the subscriber.
            for topic, (writer, name, _) in {each[2]: each for each in writers if each[1] != client_id}.items():
                with enter(address, writer, name) as publisher:
                    publisher.send(Publish(topic.encode(), b"x", 1, packet_id=1))
                    assert publisher.expect(Puback).reason_code < 0x80
                received = _received(client)
                assert received in ([], [topic])
                found[user, client_id, topic] = found[user, client_id, topic][0], bool(received)
    return found


def _received(client: WireClient) -> list[str]:
    """The topics of what has come by now: the answer to a message of the client's own comes after it."""
    client.send(Publish(b"nowhere/at/all", b"", 1, packet_id=7))
    topics = []
    while not isinstance(packet := client.receive(), Puback):
        assert isinstance(packet, Publish)
        topics.append(packet.topic.decode())
    return topics


@pytest.mark.skipif(
    find_mosquitto() is None or shutil.which("mosquitto_passwd") is None, reason="Mosquitto is not installed"
)
def test_same_decisions(tmp_path: Path) -> None:
    """Mosquitto and Sluice, with the same password and ACL files, decide each case alike."""
    passwords, acl = tmp_path / "passwords", tmp_path / "acl"
    passwords.touch()
    for user in USERS[1:]:
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), str(user), PASSWORD], check=True)
    acl.write_text(FILE)
    extra = (f"password_file {passwords}", f"acl_file {acl}", "log_type error")
    section = {"authentication": {"password_file": str(passwords)}, "authorization": {"acl_file": str(acl)}}
    with start_mosquitto(tmp_path, TCP_ONLY, extra) as theirs:
        expected = decisions(theirs.address())
    with start_sluice(tmp_path, sections=section) as ours:
        found = decisions(ours.address())
    different = {case: (found[case], expected[case]) for case in expected if found[case] != expected[case]}
    assert not different, different
    publishable = sum(publish for publish, _ in expected.values())
    readable = sum(receive for _, receive in expected.values())
    assert min(publishable, readable) > 20  # the cases tell something


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic", "line 1"),
        ("\nuser", "line 2"),
        ("pattern ", "line 1"),
        ("topic write", ""),
        ("topics read a", "found 'topics read a'"),
        ("topic\tread a", "line 1"),
        ("topic see a", "found 'see'"),
        ("topic a b", "found 'a'"),
        ("topic read a#", "found 'a#'"),
        ("topic read a/#/b", "found 'a/#/b'"),
        ("topic read a/+b", "found 'a/+b'"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    """A line that Mosquitto does not accept is a mistake, with its number and what was found."""
    if not message:
        assert parse(text)[0].filters == ["write"]
        return
    with pytest.raises(ValueError, match=r"line \d+: ") as caught:
        parse(text)
    assert message in str(caught.value)


def test_empty(tmp_path: Path) -> None:
    """Comments and empty lines make no rules."""
    path = tmp_path / "acl"
    path.write_text("# nothing\n\n   \n")
    assert read(path) == []
