"""Reload: what changes live, what needs a restart, and a configuration with mistakes."""

import signal
from os import kill
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocol import properties as props
from tests.broker.conftest import Start
from tests.support.broker.admin import listed, request
from tests.support.broker.events import events, wait_for_event
from tests.support.brokers import Listener
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

SECTIONS: Any = {"admin": {"socket": "a.sock"}, "session": {"overflow_patience": 0}}


def rewrite(broker: BrokerProcess, **sections: dict[str, object]) -> None:
    """Change keys of sections in the broker's file."""
    file = broker.folder / "sluice.yaml"
    written = yaml.safe_load(file.read_text())
    for name, keys in sections.items():
        written[name] = (written.get(name) or {}) | keys
    file.write_text(yaml.safe_dump(written))


def reload(broker: BrokerProcess) -> Any:
    """The answer to a reload."""
    return request(broker.folder / "a.sock", "/api/v1/reload", "POST")


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
        assert answer.json == {"changed": ["session.max_mqueue_len"], "restart": ["mqtt.max_topic_levels"]}
        for _ in range(5):
            sender.publish("t", b"x", 1)
        (row,) = listed(tmp_path / "a.sock", "sessions", "client_id=slow")["items"]
        assert (row["mqueue_len"], row["dropped"]) == (2, 2)
    found = {each["key"]: each["value"] for each in request(tmp_path / "a.sock", "/api/v1/configuration").json}
    assert (found["session.max_mqueue_len"], found["mqtt.max_topic_levels"]) == (2, 128)


def test_signal(broker: BrokerProcess) -> None:
    """SIGHUP reloads, and the log says what has changed: here its own level."""
    with connected(broker.address(), 5) as client:
        rewrite(broker, log={"level": "debug"})
        kill(broker.pid, signal.SIGHUP)
        (event,) = wait_for_event(broker, "reloaded")
        assert (event["changed"], event["restart"]) == (["log.level"], [])
        client.subscribe("t")
        wait_until(lambda: events(broker, "subscribed") != [], "debug lines are written")
        rewrite(broker, log={"level": "error"})
        assert reload(broker).json["changed"] == ["log.level"]
        assert wait_for_event(broker, "audit")[-1]["result"] == "changed: log.level"


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
