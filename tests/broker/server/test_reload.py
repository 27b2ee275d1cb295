"""Reload: what changes live, what needs a restart, and a configuration with mistakes."""

import signal
import socket
from os import kill, mkfifo
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.disconnect import Disconnect
from protocol.publish import encode_publish
from tests.broker.conftest import Start
from tests.support.broker import guarded
from tests.support.broker.admin import listed, request
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.reloads import reload, rewrite
from tests.support.broker.stuck import stuck_client
from tests.support.brokers import Listener
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import BrokerProcess, free_port
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

SECTIONS: Any = {"admin": {"socket": "a.sock"}, "session": {"overflow_patience": 0}}


def configuration(broker: BrokerProcess) -> dict[str, object]:
    """The value of each key that applies."""
    return {each["key"]: each["value"] for each in request(broker.folder / "a.sock", "/api/v1/configuration").json}


@pytest.fixture
def broker(start: Start) -> BrokerProcess:
    """A broker with an admin socket."""
    broker = start(sections=SECTIONS)
    wait_for_event(broker, "admin_socket")
    return broker


def test_limits_apply_to_sessions_that_are_there(broker: BrokerProcess, tmp_path: Path) -> None:
    """A smaller mqueue applies at once to a connected session, which is not disconnected."""
    one: Any = {props.RECEIVE_MAXIMUM: 1}
    with (
        connected(broker.address(), 5, client_id="slow", properties=one) as slow,
        connected(broker.address(), 5) as sender,
    ):
        slow.subscribe("t", qos=1)
        rewrite(broker, session={"max_mqueue_len": 2}, mqtt={"max_topic_levels": 5})
        answer = reload(broker)
        assert (answer.json["changed"], list(answer.json["restart"])) == (
            ["session.max_mqueue_len"],
            ["mqtt.max_topic_levels"],
        )
        assert "have been checked" in answer.json["restart"]["mqtt.max_topic_levels"]
        for _ in range(5):
            sender.publish("t", b"x", 1)
        (row,) = listed(tmp_path / "a.sock", "sessions", "client_id=slow")["items"]
        assert (row["mqueue_len"], row["dropped"]) == (2, 2)
    found = {each["key"]: each["value"] for each in request(tmp_path / "a.sock", "/api/v1/configuration").json}
    assert (found["session.max_mqueue_len"], found["mqtt.max_topic_levels"]) == (2, 128)


def test_first_rules_apply(broker: BrokerProcess) -> None:
    """The first rules of a broker that has started without any apply at once, and so does their end."""
    rules = [{"permit": "deny", "topics": ["a"], "addresses": ["127.0.0.0/8"]}]
    with connected(broker.address(), 5) as client:
        for own, code in ((rules, reason_codes.NOT_AUTHORIZED), ([], reason_codes.NO_MATCHING_SUBSCRIBERS)):
            rewrite(broker, authorization={"rules": own})
            assert reload(broker).json["restart"] == {}
            client.send(encode_publish(b"a", b"x", 1, False, False, 9, None, 5))
            assert client.expect(Puback).reason_code == code


def test_keys_that_need_a_restart_are_a_warning(broker: BrokerProcess) -> None:
    """The log warns of what a reload could not change, and of nothing else."""
    for section, level in (({"sys_interval": "7s"}, "warning"), ({"max_packet_size": 5_000}, "info")):
        rewrite(broker, mqtt={"sys_interval": "10s", **section})
        answer = reload(broker)
        assert bool(answer.json["restart"]) == (level == "warning")
    assert [event["level"] for event in wait_for_event(broker, "reloaded", 2)] == ["warning", "info"]


def test_signal(broker: BrokerProcess) -> None:
    """SIGHUP reloads, and the log says what has changed: here its own level."""
    with connected(broker.address(), 5) as client:
        rewrite(broker, log={"level": "debug"})
        kill(broker.pid, signal.SIGHUP)
        (event,) = wait_for_event(broker, "reloaded")
        assert (event["changed"], event["restart"]) == (["log.level"], {})
        (audit,) = wait_for_event(broker, "audit")
        assert (audit["who"], audit["peer"], audit["result"]) == ("signal", "SIGHUP", "changed: log.level")
        client.subscribe("t")
        wait_until(lambda: events(broker, "subscribed") != [], "debug lines are written")
        rewrite(broker, log={"level": "error"})
        assert reload(broker).json["changed"] == ["log.level"]
        assert str(wait_for_event(broker, "audit", 2)[-1]["who"]).startswith("uid ")


def test_mistakes_change_nothing(broker: BrokerProcess) -> None:
    """A configuration with mistakes is refused whole, with all of them, and the broker goes on as before."""
    with connected(broker.address(), 5) as client:
        rewrite(broker, session={"max_mqueue_len": 2, "max_inflight": "many"}, log={"level": "loud"})
        answer = reload(broker)
        assert answer.status == 422
        assert "session.max_inflight" in answer.json["detail"]
        assert "log.level" in answer.json["detail"]
        kill(broker.pid, signal.SIGHUP)
        wait_for_event(broker, "reload_failed")
        last = wait_for_event(broker, "audit", 2)[-1]
        assert (last["who"], last["refused"], str(last["result"])[:9]) == ("signal", True, "refused: ")
        found = {each["key"]: each["value"] for each in request(broker.folder / "a.sock", "/api/v1/configuration").json}
        assert found["session.max_mqueue_len"] == 1000
        client.expect_nothing_more()


def test_certificates(start: Start, tmp_path: Path, certificates: Certificates) -> None:
    """A renewed certificate is used for new connections, and those that are there stay."""
    broker = start([Listener("tls", certificates)], sections=SECTIONS)
    wait_for_event(broker, "admin_socket")
    old = certificates.client_context(with_certificate=False)
    (tmp_path / "new").mkdir()
    renewed = make_certificates(tmp_path / "new")
    with WireClient(broker.address("tls"), 5, tls=old) as client:
        client.connect()
        file = broker.folder / "sluice.yaml"
        text = file.read_text()
        for part in ("certfile", "keyfile"):
            before, after = str(getattr(certificates.server, part)), str(getattr(renewed.server, part))
            assert before in text
            text = text.replace(before, after)
        file.write_text(text)
        assert reload(broker).json["changed"] == ["listeners[0].tls.certfile", "listeners[0].tls.keyfile"]
        with WireClient(broker.address("tls"), 5, tls=renewed.client_context(with_certificate=False)) as another:
            another.connect()
            client.expect_nothing_more()
        renewed.server.keyfile.write_bytes(certificates.server.keyfile.read_bytes())
        refused = reload(broker)
        assert (refused.status, "cannot be used" in refused.json["detail"]) == (422, True)


def test_renewed_files(start: Start, tmp_path: Path) -> None:
    """The answer and the log name the certificates whose files were renewed where they are, and only once."""
    for folder in (tmp_path / "files", tmp_path / "new"):
        folder.mkdir()
    own, new = make_certificates(tmp_path / "files"), make_certificates(tmp_path / "new")
    tls = {key: str(getattr(own.server, key)) for key in ("certfile", "keyfile")}
    admin = SECTIONS["admin"] | {"listen": "127.0.0.1:0", "tls": tls, "tokens": [{"name": "a", "sha256": "0" * 64}]}
    broker = start([Listener("tls", own)], sections=SECTIONS | {"admin": admin})
    wait_for_event(broker, "admin_listening")
    assert reload(broker).json["renewed"] == []
    for part in ("certfile", "keyfile"):
        getattr(own.server, part).write_bytes(getattr(new.server, part).read_bytes())
    answer = reload(broker).json
    keys = [f"{place}.tls.{key}" for place in ("listeners[0]", "admin") for key in ("certfile", "keyfile")]
    assert (answer["changed"], answer["renewed"]) == ([], keys)
    assert wait_for_event(broker, "reloaded", 2)[-1]["renewed"] == keys
    assert wait_for_event(broker, "audit", 2)[-1]["result"] == f"renewed: {', '.join(keys)}"
    assert reload(broker).json["renewed"] == []


def test_while_stopping(broker: BrokerProcess) -> None:
    """A broker that stops, and waits for a client that does not read, opens no new listener any more."""
    port = free_port()
    configuration(broker)  # loads the API, which would take longer on a busy machine than the broker waits
    with stuck_client(broker):
        rewrite(broker, listeners=[{"name": "new", "bind": f"127.0.0.1:{port}"}])
        broker.ask_to_end()
        wait_for_event(broker, "stopping")
        answer = reload(broker)
        assert (answer.status, "the broker stops" in answer.json["detail"]) == (422, True)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        kill(broker.pid, signal.SIGHUP)
        assert "the broker stops" in str(wait_for_event(broker, "reload_failed")[0]["detail"])
    assert broker.stop() == 0


def test_fifo(broker: BrokerProcess) -> None:
    """A file that has become a FIFO is refused at once, and the next reload is not held up by it."""
    file = broker.folder / "sluice.yaml"
    file.rename(broker.folder / "kept.yaml")
    mkfifo(file)
    answer = reload(broker)
    assert (answer.status, "is not a regular file" in answer.json["detail"]) == (422, True)
    (broker.folder / "kept.yaml").rename(file)
    assert reload(broker).status == 200


@pytest.mark.parametrize(
    ("section", "values"),
    [
        (
            "session",
            {"max_inflight": 1, "retry_interval": "infinity", "mqueue_priorities": [{"match": "a", "weight": 2}]},
        ),
        ("session", {"consumer_max_rate": 5, "producer_max_rate": 100, "slow_consumer": {"threshold": 1}}),
        (
            "mqtt",
            {"max_packet_size": "2KiB", "max_connections": 5, "max_connection_rate": 1000, "connect_timeout": "1s"},
        ),
        ("mqtt", {"server_keep_alive": "10s", "response_information": "r", "overlapping_subscriptions": "each"}),
        ("authorization", {"deny_publish": ["x"], "refused_subscribe": "not_authorized", "foreign_sessions": "refuse"}),
    ],
)
def test_live(broker: BrokerProcess, section: str, values: dict[str, object]) -> None:
    """What new sessions and connections take up changes with a reload, and changes back; nobody is disconnected."""
    written = yaml.safe_load((broker.folder / "sluice.yaml").read_text())
    with connected(broker.address(), 5) as client:
        before = configuration(broker)
        rewrite(broker, **{section: values})
        answer = reload(broker).json
        assert answer["restart"] == {}
        for name in values:
            assert any(key.startswith(f"{section}.{name}") for key in answer["changed"]), name
        (broker.folder / "sluice.yaml").write_text(yaml.safe_dump(written))
        assert reload(broker).json["changed"] == answer["changed"]
        assert configuration(broker) == before
        client.expect_nothing_more()


def test_new_clients(broker: BrokerProcess) -> None:
    """New clients get the new limits of the protocol, and a denied topic is denied to those that are there."""
    with connected(broker.address(), 5) as old:
        rewrite(broker, mqtt={"max_packet_size": 300, "server_keep_alive": "7s"}, authorization={"deny_publish": ["x"]})
        assert reload(broker).json["restart"] == {}
        old.publish("t", b"x" * 400, 1)
        old.send(encode_publish(b"x", b"", 1, False, False, 9, None, 5))
        assert old.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED
        with WireClient(broker.address(), 5) as new:
            announced = new.connect().properties or {}
            assert (announced[props.MAXIMUM_PACKET_SIZE], announced[props.SERVER_KEEP_ALIVE]) == (300, 7)


def test_users_of_scram(broker: BrokerProcess) -> None:
    """Users of SCRAM come and go with a reload: who is removed is disconnected, others stay."""
    users = guarded.GUARDED["authentication"]["scram"]
    rewrite(broker, authentication={"scram": users})
    with connected(broker.address(), 5) as other:
        assert "authentication.scram[0].username" in reload(broker).json["changed"]
        with guarded.authenticated(broker.address()) as client:
            assert reload(broker).json["changed"] == []
            client.expect_nothing_more()
            rewrite(broker, authentication={"scram": users[1:]})
            reload(broker)
            bye = client.expect(Disconnect)
            assert bye.reason_code == reason_codes.ADMINISTRATIVE_ACTION
        other.expect_nothing_more()


def test_a_half_that_would_be_open(broker: BrokerProcess) -> None:
    """If users need a restart, a listener for other machines that relies on them is not opened before it."""
    (broker.folder / "passwords").write_text("")
    rewrite(broker, authentication={"password_file": str(broker.folder / "passwords")})
    file = broker.folder / "sluice.yaml"
    written = yaml.safe_load(file.read_text())
    del written["allow_anonymous"]
    written["listeners"].append({"name": "all", "bind": "0.0.0.0:0"})
    file.write_text(yaml.safe_dump(written))
    answer = reload(broker).json
    assert (answer["opened"], answer["changed"]) == ([], [])
    assert list(answer["restart"]) == ["allow_anonymous", "authentication.password_file", "listeners[1].bind"]


def test_a_half_that_would_not_be_valid(start: Start) -> None:
    """The tokens of an admin API that stays open until the restart are not taken away before it."""
    token = {"name": "t", "sha256": "0" * 64, "role": "viewer"}
    broker = start(sections={"admin": {"socket": None, "listen": "127.0.0.1:0", "tokens": [token]}})
    rewrite(broker, admin={"listen": None, "tokens": []})
    kill(broker.pid, signal.SIGHUP)
    (event,) = wait_for_event(broker, "reload_failed")
    assert "without what needs a restart (admin.listen" in str(event["detail"])
    assert "needs admin.tokens" in str(event["detail"])


def test_a_file_that_is_being_written(broker: BrokerProcess) -> None:
    """An empty file is what a reload finds while somebody writes it: it does not mean that all listeners go."""
    (broker.folder / "sluice.yaml").write_text("")
    with connected(broker.address(), 5) as client:
        answer = reload(broker)
        assert (answer.status, "is empty" in answer.json["detail"]) == (422, True)
        client.expect_nothing_more()


def test_a_hundred_times(broker: BrokerProcess) -> None:
    """A hundred reloads under load lose no message and disconnect nobody."""
    with connected(broker.address(), 5) as subscriber, connected(broker.address(), 5) as sender:
        subscriber.subscribe("t", qos=1)
        for number in range(100):
            rewrite(broker, session={"max_mqueue_len": 100 + number})
            kill(broker.pid, signal.SIGHUP)
            sender.publish("t", str(number).encode(), 1)
            assert subscriber.receive_message().payload == str(number).encode()
    broker.assert_healthy()
