"""Users with passwords, over sockets: who is let in, what the answer tells, and a file that changes meanwhile."""

import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from hashlib import pbkdf2_hmac, sha512
from pathlib import Path

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.guarded import GUARDED, expect_refusal
from tests.support.broker.guarded import authenticated as authenticated_by_scram
from tests.support.broker.logins import (
    PASSWORDS,
    code,
    fast_hash,
    log_in,
    paho_login,
    sections,
    slow_hash,
    write_users,
)
from tests.support.brokers import LOOPS, Listener, start_sluice
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess, clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

BAD = reason_codes.BAD_USER_NAME_OR_PASSWORD
ANN = PASSWORDS["ann"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """A broker with users, whose log has no password at the end, not even a wrong one."""
    folder = tmp_path_factory.mktemp("passwords")
    listeners = (Listener(), Listener("mutual", certificates, True))
    settings = sections(write_users(folder / "users"), log={"level": "debug", "format": "json"})
    with start_sluice(folder, listeners, settings) as running:
        yield running
        for secret in (*PASSWORDS.values(), "wrong password", "$argon2id$"):
            assert secret not in running.stderr


@pytest.fixture
def address(guarded: BrokerProcess) -> Address:
    """Where it is."""
    return guarded.address()


@pytest.mark.parametrize("version", [4, 5])
def test_paho(address: Address, version: int) -> None:
    """A real client logs in by user name and password, and is told when they are wrong."""
    assert not paho_login(address, "ann", ANN, version).is_failure
    refused = paho_login(address, "ann", "wrong password", version)
    assert refused.getName() == "Bad user name or password"


@pytest.mark.parametrize(
    ("user", "password", "expected"),
    [
        ("ann", ANN, (0, 0)),
        ("ben", PASSWORDS["ben"], (0, 0)),
        ("ann", PASSWORDS["ben"], (4, BAD)),
        ("ann", "", (4, BAD)),
        ("ann", None, (4, BAD)),
        ("ann", b"\xff\0", (4, BAD)),
        ("Ann", ANN, (4, BAD)),
        ("", ANN, (4, BAD)),
        ("nobody", "x" * 65_535, (4, BAD)),
        ("n" * 65_535, ANN, (4, BAD)),
        (None, None, (5, reason_codes.NOT_AUTHORIZED)),
        ("", None, (5, reason_codes.NOT_AUTHORIZED)),
    ],
    ids=lambda value: str(value)[:20],
)
def test_codes(address: Address, user: str | None, password: str | bytes | None, expected: tuple[int, int]) -> None:
    """A wrong name or password is 4 in 3.1.1 and 0x86 in 5, none at all 5 and 0x87."""
    assert (code(address, user, password, 4), code(address, user, password, 5)) == expected


def test_password_alone(address: Address) -> None:
    """MQTT 5 allows a password without a user name; it belongs to nobody."""
    assert code(address, None, ANN) == BAD


def test_unknown_user_looks_like_a_known_one(guarded: BrokerProcess) -> None:
    """The answer to an unknown user differs from the one to a wrong password in the name only, and so does the log."""
    before = len(events(guarded, "client_refused"))
    reasons = set()
    for user in ("ann", "zoe"):
        with log_in(guarded.address(), user, "wrong password") as client:
            refused = expect_refusal(client, BAD).properties or {}
            assert list(refused) == [props.REASON_STRING]
            reasons.add(str(refused[props.REASON_STRING]).replace(user, "?"))
    assert len(reasons) == 1
    logged = wait_for_event(guarded, "client_refused", before + 2)[before:]
    assert len({event["detail"].replace("ann", "zoe") for event in logged}) == 1


def test_certificate(guarded: BrokerProcess, certificates: Certificates) -> None:
    """A required certificate is enough, but who names a user as well must have the password."""
    context = certificates.client_context(with_certificate=True)
    for user, expected in ((None, 0), ("ann", BAD)):
        with WireClient(guarded.address("mutual"), 5, tls=context) as client:
            client.send(Connect("", True, username=user, password=None, version=5))
            assert client.expect(Connack).reason_code == expected


def test_packets_behind_connect(address: Address) -> None:
    """A client need not wait for CONNACK (section 3.1.4): what it sends meanwhile is handled in order."""
    with WireClient(address, 5) as client:
        client.send(
            Connect("", True, username="ann", password=ANN.encode(), version=5),
            Subscribe(1, [Subscription("behind")]),
            Publish(b"behind", b"x"),
        )
        assert client.expect(Connack).reason_code == 0
        assert {type(client.receive()).__name__ for _ in range(2)} == {"Suback", "Publish"}


def test_end_of_stream_behind_connect(address: Address) -> None:
    """A client that sends everything and closes its side is heard to the end [MQTT-3.14.4-3]."""
    with log_in(address, "ben", PASSWORDS["ben"]) as watcher, WireClient(address, 5) as client:
        watcher.expect(Connack)
        watcher.subscribe("last/words")
        connect = Connect("", True, username="ann", password=ANN.encode(), version=5)
        client.send(connect, Publish(b"last/words", b"x"), Disconnect())
        client.socket.shutdown(socket.SHUT_WR)
        assert watcher.expect(Publish).payload == b"x"
        assert isinstance(client.expect_close(), Connack)


@pytest.mark.parametrize("loop", LOOPS)
def test_gone_before_the_answer(tmp_path: Path, loop: str) -> None:
    """A client that closes while its password is checked leaves a line in the log, and no traceback, on either loop."""
    settings = sections(write_users(tmp_path / "users"), log={"format": "json"})
    with start_sluice(tmp_path, sections=settings, command=LOOPS[loop]) as broker:
        for _ in range(10):
            log_in(broker.address(), "ann", "wrong").close()
        wait_for_event(broker, "client_refused", 10)


def test_no_password_is_not_the_empty_one(start: Start, tmp_path: Path) -> None:
    """Whose hash is of the empty password is let in with that, but never without a password, also right after."""
    salt = b64encode(b"salt" * 3).decode()
    pbkdf2 = b64encode(pbkdf2_hmac("sha512", b"", b"salt" * 3, 101)).decode()
    sha512_once = b64encode(sha512(b"salt" * 3).digest()).decode()
    hashes = {"argon2id": fast_hash(""), "pbkdf2": f"$7$101${salt}${pbkdf2}", "sha512": f"$6${salt}${sha512_once}"}
    users = tmp_path / "users"
    users.write_text("".join(f"{name}:{encoded}\n" for name, encoded in hashes.items()))
    address = start(sections=sections(users)).address()
    for name in hashes:
        answers = [code(address, name, password, version) for version in (4, 5) for password in (None, "", None)]
        assert answers == [4, 0, 4, BAD, 0, BAD], name


def test_take_over_needs_the_password(address: Address) -> None:
    """An older connection with the same client id stays until the new one has been let in [MQTT-3.1.4-3]."""
    with log_in(address, "ann", ANN, client_id="mine") as older:
        older.expect(Connack)
        with log_in(address, "ann", "wrong password", client_id="mine") as thief:
            expect_refusal(thief, BAD)
        older.expect_nothing_more()
        with log_in(address, "ann", ANN, client_id="mine") as newer:
            assert newer.expect(Connack).reason_code == 0
            assert older.expect(Disconnect).reason_code == reason_codes.SESSION_TAKEN_OVER


@pytest.mark.parametrize(("setting", "expected"), [(None, reason_codes.NOT_AUTHORIZED), (True, 0)])
def test_allow_anonymous(start: Start, tmp_path: Path, setting: bool | None, expected: int) -> None:
    """allow_anonymous: true lets in who names no user; a wrong password is refused all the same."""
    address = start(sections=sections(write_users(tmp_path / "users")) | {"allow_anonymous": setting}).address()
    assert code(address, None, None) == expected
    assert code(address, "ann", "wrong password") == BAD
    assert code(address, "zoe", None) == BAD


def test_beside_scram(start: Start, tmp_path: Path) -> None:
    """Users of SCRAM and users with passwords are let in by one broker, each by its own way."""
    both = {"password_file": str(write_users(tmp_path / "users")), **GUARDED["authentication"]}
    address = start(sections={"allow_anonymous": None, "authentication": both}).address()
    with authenticated_by_scram(address) as client:
        client.expect_nothing_more()
    assert code(address, "ann", ANN) == 0
    assert code(address, None, None) == reason_codes.NOT_AUTHORIZED


# -- a file that changes


def run_user(*arguments: str, password: str = "") -> None:
    """Run `sluice user`."""
    command = [sys.executable, "-m", "broker", "user", *arguments]
    subprocess.run(command, input=password + "\n", text=True, env=clean_environment(), check=True)


def test_changes_while_running(start: Start, tmp_path: Path) -> None:
    """New users can log in, and those who are removed or have a new password are disconnected; nobody else is."""
    path = write_users(tmp_path / "users")
    address = start(sections=sections(path)).address()
    with log_in(address, "ann", ANN) as ann, log_in(address, "ben", PASSWORDS["ben"], 4) as ben:
        assert (ann.expect(Connack).reason_code, ben.expect(Connack).reason_code) == (0, 0)
        run_user("add", "zoe", "--file", str(path), password="new")
        wait_until(lambda: code(address, "zoe", "new") == 0, "zoe is known")
        run_user("passwd", "ann", "--file", str(path), password="other")
        assert ann.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
        assert code(address, "ann", ANN) == BAD
        assert code(address, "ann", "other") == 0
        ben.expect_nothing_more()
        run_user("remove", "ben", "--file", str(path))
        assert ben.expect_close() is None
        assert code(address, "ben", PASSWORDS["ben"]) == BAD


def test_file_that_is_gone(start: Start, tmp_path: Path) -> None:
    """While the file cannot be read, those who were in it stay users, and the log says so once."""
    path = write_users(tmp_path / "users")
    broker = start(sections=sections(path))
    path.rename(tmp_path / "elsewhere")
    (event,) = wait_for_event(broker, "file_not_read")
    assert (event["key"], event["file"]) == ("authentication.password_file", str(path))
    assert code(broker.address(), "ann", ANN) == 0
    write_users(path, {"zoe": "back"})
    wait_until(lambda: code(broker.address(), "zoe", "back") == 0, "the file is read again")
    assert len(events(broker, "file_not_read")) == 1


def test_file_that_becomes_empty(start: Start, tmp_path: Path) -> None:
    """Whoever has just emptied the file disconnects nobody; who removes the last user means it."""
    path = write_users(tmp_path / "users", {"ann": ANN})
    broker = start(sections=sections(path))
    with log_in(broker.address(), "ann", ANN) as ann:
        assert ann.expect(Connack).reason_code == 0
        content = path.read_text()
        path.write_text("")
        (event,) = wait_for_event(broker, "file_not_read")
        assert "write a comment if nothing is to be in it" in event["detail"]
        assert code(broker.address(), "ann", ANN) == 0
        ann.expect_nothing_more()
        path.write_text(content)
        run_user("remove", "ann", "--file", str(path))
        assert ann.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
        assert code(broker.address(), "ann", ANN) == BAD


def test_half_a_file(start: Start, tmp_path: Path) -> None:
    """Half a file disconnects whom it has no more, if it stays so, and the log says how many they are."""
    path = write_users(tmp_path / "users", {"ann": ANN, "ben": PASSWORDS["ben"]})
    broker = start(sections=sections(path))
    with log_in(broker.address(), "ann", ANN) as ann, log_in(broker.address(), "ben", PASSWORDS["ben"]) as ben:
        assert (ann.expect(Connack).reason_code, ben.expect(Connack).reason_code) == (0, 0)
        path.write_text(path.read_text()[:-20])
        assert ben.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
        (event,) = wait_for_event(broker, "users_disconnected")
        assert (event["source"], event["users"], event["connections"]) == ("password_file", 1, 1)
        ann.expect_nothing_more()


def test_mistakes_are_logged(start: Start, tmp_path: Path) -> None:
    """A line that cannot be used is logged by its number without the hash; other users log in."""
    path = write_users(tmp_path / "users")
    path.write_text(f"zoe:hunter2\n{path.read_text()}")
    broker = start(sections=sections(path))
    (event,) = wait_for_event(broker, "password_file_mistake")
    assert event["detail"].startswith("line 1: ")
    assert "hunter2" not in broker.stderr
    assert code(broker.address(), "ann", ANN) == 0
    assert code(broker.address(), "zoe", "hunter2") == BAD


# -- what hashing costs


def test_clients_are_served_while_passwords_are_hashed(start: Start, tmp_path: Path) -> None:
    """A hundred wrong passwords wait for the threads; who has a session has its answers before theirs."""
    path = tmp_path / "users"
    path.write_text(f"ann:{slow_hash(ANN)}\nben:{fast_hash('x')}\n")
    address = start(sections=sections(path)).address()
    with log_in(address, "ann", ANN) as client:
        assert client.expect(Connack).reason_code == 0
        storm = [log_in(address, "ann", "wrong password") for _ in range(100)]
        client.send(Subscribe(1, [Subscription("a")]), Publish(b"a", b"x"))
        client.expect(Suback)
        client.expect(Publish)
        storm[-1].socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            storm[-1].socket.recv(1)
        with log_in(address, "ann", ANN) as again:  # verified before: it costs no hashing
            assert again.expect(Connack).reason_code == 0
        for one in storm:
            one.socket.close()


def test_time_limit(start: Start, tmp_path: Path) -> None:
    """Who has no answer when mqtt.connect_timeout is over is closed, whoever waits before it."""
    path = tmp_path / "users"
    path.write_text(f"ann:{slow_hash(ANN)}\n")
    address = start(sections=sections(path, mqtt={"connect_timeout": "200ms"})).address()
    storm = [log_in(address, "ann", "wrong password") for _ in range(100)]
    assert storm[-1].expect_close() is None
    for one in storm:
        one.socket.close()


def test_nothing_is_left_of_a_refused_client(start: Start, tmp_path: Path) -> None:
    """A client that is refused leaves no will, session or retained message."""
    address = start(sections=sections(write_users(tmp_path / "users"))).address()
    with log_in(address, "ann", ANN) as watcher:
        watcher.expect(Connack)
        watcher.subscribe("#")
        with WireClient(address, 5) as client:
            will = Will(b"a", b"x", retain=True)
            client.send(
                Connect("x", False, username="ann", password=b"wrong password", will=will, version=5),
                Publish(b"a", b"x", retain=True),
            )
            expect_refusal(client, BAD)
        watcher.expect_nothing_more()


def test_without_a_file(start: Start) -> None:
    """Without users everyone is let in on loopback, and a user name is not looked at."""
    address = start(sections={"allow_anonymous": None}).address()
    with log_in(address, "ann", "anything") as client, connected(address, 4) as other:
        assert client.expect(Connack).reason_code == 0
        other.expect_nothing_more()


def test_denied_topics_are_no_strangers_business(start: Start, tmp_path: Path) -> None:
    """Only clients that are let in are told that the topic of their will is denied; to others all wills are alike."""
    path = write_users(tmp_path / "users")
    address = start(sections=sections(path, authorization={"deny_publish": ["hidden/#"]})).address()
    found: dict[bytes, list[int]] = {}
    for topic in (b"hidden/x", b"open/x", b"/" * 1000):
        for password in (ANN.encode(), b"wrong password"):
            with WireClient(address, 5) as client:
                client.send(Connect("x", True, username="ann", password=password, will=Will(topic, b"x"), version=5))
                found.setdefault(password, []).append(client.expect(Connack).reason_code)
    denied, invalid = reason_codes.NOT_AUTHORIZED, reason_codes.TOPIC_NAME_INVALID
    assert found == {ANN.encode(): [denied, 0, invalid], b"wrong password": [BAD] * 3}


# -- who tries passwords


def test_tried_passwords(start: Start, tmp_path: Path) -> None:
    """Past the limit of a user the password is not looked at (0x9F, 3.1.1 code 3); who is known here still logs in."""
    path = write_users(tmp_path / "users", {**PASSWORDS, "zoe": "secret"})
    own = {"password_file": str(path), "failed_logins": {"per_user": 4, "per_address": "infinity"}}
    broker = start(sections={"allow_anonymous": None, "authentication": own})
    address = broker.address()
    assert code(address, "zoe", "secret") == 0
    assert [code(address, "ann", "wrong password") for _ in range(4)] == [BAD] * 4
    assert code(address, "ann", ANN) == reason_codes.CONNECTION_RATE_EXCEEDED
    assert code(address, "ann", ANN, 4) == 3
    assert [code(address, user, "x") for user in ("zoe", "ben", "nobody")] == [BAD] * 3
    assert code(address, "zoe", "secret") == 0
    refused = wait_for_event(broker, "client_refused", 4 + 2 + 3)
    assert sum("too many failed logins" in event["detail"] for event in refused) == 2


def test_storm_does_not_delay_others(start: Start, tmp_path: Path) -> None:
    """A storm from one address ends in refusals without hashing, and a client with a session is served meanwhile."""
    path = tmp_path / "users"
    path.write_text(f"ann:{slow_hash(ANN)}\n")
    own = {"password_file": str(path), "failed_logins": {"per_address": 5, "per_user": "infinity"}}
    address = start(sections={"allow_anonymous": None, "authentication": own}).address()
    with log_in(address, "ann", ANN) as client:
        assert client.expect(Connack).reason_code == 0
        for number in range(5):
            assert code(address, f"user{number}", "x") == BAD
        for number in range(200):
            assert code(address, f"user{number}", "x") == reason_codes.CONNECTION_RATE_EXCEEDED
        client.expect_nothing_more()
