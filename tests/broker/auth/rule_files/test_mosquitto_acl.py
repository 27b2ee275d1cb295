"""Mosquitto's ACL files: the same decisions as Mosquitto's own, and what is none."""

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.auth.permissions import Permissions, Who
from broker.auth.rule_files.mosquitto_acl import parse, read
from broker.auth.rules import RuleSet
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.logins import NO_LIMITS
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
topic braces/{client_id}/x
topic deny braces/{username}/y
topic braces/+/y

user ben
topic read #
topic deny $SYS/#
topic write ann/ben
user ann
topic write later

user root
topic readwrite #

pattern read pattern/%u/#
pattern write pattern/%c/x
pattern deny pattern/+/never
pattern   read   odd name
pattern readwrite braces/{client_id}/{role}/%u
"""
UNTIL_2_0 = "pattern readwrite %u and %c/y\n"
"""From version 2.1 on Mosquitto replaces a placeholder only if it is a whole level, and by no name with a slash."""
ROOT = "root"
"""May do everything, but for what is denied to all."""

USERS = (None, "ann", "ben", "ned", "a+b")
CLIENT_IDS = ("c1", "c#")
SLASHED = "c/1"
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
    "braces/{client_id}/x",
    "braces/c1/x",
    "braces/{username}/y",
    "braces/ann/y",
    "braces/{client_id}/{role}/ann",
    "braces/c1/{role}/ann",
    "nowhere",
)
PASSWORDS = {"ann": "correct horse", "ben": "pässwörd", "ned": "x", "a+b": " ", ROOT: "sesame"}
HASHES = {"ben": ("-H", "sha512"), "ned": ("-H", "sha512-pbkdf2")}
"""Kinds of hashes that mosquitto_passwd is told to make; without, what it makes by itself."""

LOGINS: tuple[tuple[str | None, bytes | None], ...] = (
    *((user, password.encode()) for user, password in PASSWORDS.items()),
    *((user, b"battery staple") for user in PASSWORDS),
    ("ann", PASSWORDS["ben"].encode()),
    ("Ann", PASSWORDS["ann"].encode()),
    ("ann ", PASSWORDS["ann"].encode()),
    ("ann", b"correct horse "),
    ("ann", b"correct horse\0"),
    ("ann", b""),
    ("ann", None),
    ("gone", b"x"),
    ("new", b"first"),
    ("new", b"second"),
    ("nobody", b"x"),
    ("", b"x"),
    (None, None),
)

Decision = tuple[object, ...]

DIFFERENT: dict[Decision, tuple[object, object]] = {("login", version, "", b"x"): (False, True) for version in (4, 5)}
"""Sluice, Mosquitto: in one a password without a user name has to be somebody's, in the other it is not looked at."""


def password_file(path: Path) -> Path:
    """A file that mosquitto_passwd has made: with users of each kind, one who is gone, one with another password."""
    path.touch()
    for user, password in {**PASSWORDS, "gone": "x", "new": "first"}.items():
        _passwd(*HASHES.get(user, ()), "-b", str(path), user, password)
    _passwd("-D", str(path), "gone")
    _passwd("-b", str(path), "new", "second")
    return path


def _passwd(*arguments: str) -> None:
    subprocess.run(["mosquitto_passwd", *arguments], check=True, capture_output=True)


def logins(address: Address) -> dict[Decision, object]:
    """Which logins are let in."""
    found: dict[Decision, object] = {}
    for version, (user, password) in itertools.product((4, 5), LOGINS):
        with WireClient(address, version) as client:
            client.send(Connect("login", True, username=user, password=password, version=version))
            found["login", version, user, password] = client.expect(Connack).reason_code == 0
    return found


def enter(address: Address, user: str | None, client_id: str, will: Will | None = None) -> tuple[WireClient, int]:
    """A client with the right password, and the code of CONNACK."""
    client = WireClient(address, 5)
    password = None if user is None else PASSWORDS[user].encode()
    client.send(Connect(client_id, True, username=user, password=password, will=will, version=5))
    return client, client.expect(Connack).reason_code


def decisions(address: Address, client_ids: tuple[str, ...]) -> dict[Decision, object]:
    """What each client may do with each topic: publish, leave a will, and receive by each kind of subscription."""
    found: dict[Decision, object] = {}
    root, code = enter(address, ROOT, ROOT)
    assert code == 0
    with root:
        for user, client_id in itertools.product(USERS, client_ids):
            case = (user, client_id)
            client, code = enter(address, user, client_id)
            assert code == 0
            with client:
                for topic in TOPICS:
                    client.send(Publish(topic.encode(), b"x", 1, packet_id=1))
                    found["publish", *case, topic] = client.expect(Puback).reason_code < 0x80
                _write_all(root, b"kept", retain=True)
                found["retained", *case] = _received(client, "#", b"kept")
                _write_all(root, b"live")
                found["#", *case] = _received(client, "", b"live")
                client.unsubscribe("#")
                _write_all(root, b"", retain=True)
                for prefix in ("", "$share/g/"):
                    _received(client, [f"{prefix}{topic}" for topic in TOPICS], b"")
                    _write_all(root, b"each")
                    found[f"{prefix}topic", *case] = _received(client, "", b"each")
                    client.unsubscribe(*(f"{prefix}{topic}" for topic in TOPICS))
            found["will", *case] = _wills(address, root, user, client_id)
    return found


def _write_all(root: WireClient, payload: bytes, retain: bool = False) -> None:
    """Publish on all topics; when the last one is acknowledged, each is on its way to its subscribers."""
    for number, topic in enumerate(TOPICS, 1):
        root.send(Publish(topic.encode(), payload, 1, retain, packet_id=number))
        while not isinstance(root.receive(), Puback):
            pass


def _received(client: WireClient, wanted: str | list[str], payload: bytes) -> list[str]:
    """Subscribe, if to anything; the topics of what has come by now with this payload."""
    filters = [wanted] if isinstance(wanted, str) and wanted else wanted
    if filters:
        client.send(Subscribe(1, [Subscription(each) for each in filters]))
    # The answer to a message of the client's own comes after what was on its way, and one to a ping after its own copy.
    topics = []
    barriers: tuple[tuple[type[Packet], Packet], ...] = (
        (Puback, Publish(b"nowhere/at/all", b"", 1, packet_id=7)),
        (Pingresp, Pingreq()),
    )
    for last, packet in barriers:
        client.send(packet)
        while not isinstance(came := client.receive(), last):
            if isinstance(came, Publish) and came.payload == payload and came.topic != b"nowhere/at/all":
                topics.append(came.topic.decode())
    return sorted(topics)


def _wills(address: Address, root: WireClient, user: str | None, client_id: str) -> list[str]:
    """The topics on which a client's will is published. Sluice refuses a client whose will would not be."""
    root.subscribe("#")
    for topic in TOPICS:
        client, code = enter(address, user, client_id, Will(topic.encode(), b"will"))
        if code == 0:
            client.send(Disconnect(reason_codes.DISCONNECT_WITH_WILL_MESSAGE))
            client.expect_close()
        client.close()
    found = _received(root, "", b"will")
    root.unsubscribe("#")
    return found


def _is_newer() -> bool:
    """Whether Mosquitto's version is 2.1 or newer."""
    said = subprocess.run([str(find_mosquitto()), "-h"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", said)
    assert version is not None
    return (int(version[1]), int(version[2])) >= (2, 1)


@pytest.mark.skipif(
    find_mosquitto() is None or shutil.which("mosquitto_passwd") is None, reason="Mosquitto is not installed"
)
@pytest.mark.timeout(300)
def test_same_decisions(tmp_path: Path) -> None:
    """Mosquitto and Sluice, with the same password and ACL files, decide each case alike."""
    passwords, acl = password_file(tmp_path / "passwords"), tmp_path / "acl"
    newer = _is_newer()
    acl.write_text(FILE if newer else FILE + UNTIL_2_0)
    client_ids = CLIENT_IDS if newer else (*CLIENT_IDS, SLASHED)
    extra = (f"password_file {passwords}", f"acl_file {acl}", "log_type error")
    users = {"password_file": str(passwords), **NO_LIMITS}
    section = {"allow_anonymous": True, "authentication": users, "authorization": {"acl_file": str(acl)}}
    with start_mosquitto(tmp_path, TCP_ONLY, extra) as theirs:
        expected = logins(theirs.address()) | decisions(theirs.address(), client_ids)
    with start_sluice(tmp_path, sections=section) as ours:
        found = logins(ours.address()) | decisions(ours.address(), client_ids)
    different = {case: (found[case], expected[case]) for case in expected if found[case] != expected[case]}
    assert different == DIFFERENT
    kinds = ("login", "publish", "retained", "#", "topic", "$share/g/topic", "will")
    said = {kind: [answer for case, answer in expected.items() if case[0] == kind] for kind in kinds}
    assert all(len({str(answer) for answer in answers}) > 1 for answers in said.values())  # the cases tell something
    assert sum(len(answers) for answers in said.values()) == len(found) == len(expected)


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
        assert parse(text)[0].filters == [["write"]]
        return
    with pytest.raises(ValueError, match=r"line \d+: ") as caught:
        parse(text)
    assert message in str(caught.value)


def test_empty(tmp_path: Path) -> None:
    """Comments and empty lines make no rules."""
    path = tmp_path / "acl"
    path.write_text("# nothing\n\n   \n")
    assert read(path) == []


def test_filters_that_are_not_text() -> None:
    """A filter or user name that is not UTF-8 is about nobody and nothing in MQTT; the other lines hold."""
    rules = parse("user \udcff\ntopic #\nuser ann\ntopic \udcfe/#\ntopic a\n")
    ann = Who("ann", frozenset(), "x", "", "")
    permissions = Permissions(ann, RuleSet(rules).bind(ann), False)
    assert [permissions.may_publish(topic, 0, False) for topic in (b"a", b"b", b"\xfe/x")] == [True, False, False]


def test_names_that_are_the_brokers() -> None:
    """A pattern that allows does not give $SYS to a client that calls itself so, as Mosquitto's own would."""
    rules = parse("pattern read %c/#\npattern read $SYS/%u\npattern deny odd/%c\npattern read odd/#\n")
    odd = Who("$SYS", frozenset(), "$SYS", "", "")
    permissions = Permissions(odd, RuleSet(rules).bind(odd), False)
    topics = (b"$SYS/a", b"$SYS/$SYS", b"odd/$SYS", b"odd/a")
    assert [permissions.may_receive(topic, 0) for topic in topics] == [False, True, False, True]
