"""Reload of who may connect and do what: protection that moves to a key that waits for a restart is not gone before."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.server.listener_plan import SYSTEMD
from broker.server.reload import plan_reload
from config import models as settings
from config.access import Authorization
from config.rule import Rule
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.publish import encode_publish
from tests.broker.conftest import Start
from tests.support.broker import guarded
from tests.support.broker.admin import request
from tests.support.broker.events import wait_for_event
from tests.support.broker.logins import write_users
from tests.support.broker.reloads import reload
from tests.support.brokers import Listener
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

RULES = [{"permit": "deny", "topics": ["secret/#"]}, {"permit": "allow", "topics": ["#"]}]
TOGETHER = "what decides about access changes together, and {} waits: it is opened when the broker starts"
ADMIN: Any = {"admin": {"socket": "a.sock"}}


def begin(start: Start, listener: Listener | None = None, **sections: Any) -> BrokerProcess:
    """A broker with an admin socket and these sections."""
    broker = start((listener or Listener(),), sections=ADMIN | sections)
    wait_for_event(broker, "admin_socket")
    return broker


def replace(broker: BrokerProcess, **sections: Any) -> dict[str, Any]:
    """The answer to a reload with these sections, and nothing left of what they had."""
    file = broker.folder / "sluice.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | sections))
    answer: dict[str, Any] = reload(broker).json
    return answer


@pytest.mark.parametrize(
    ("key", "text"),
    [("rules_file", yaml.safe_dump({"rules": RULES})), ("acl_file", "topic readwrite public/#\n")],
)
def test_rules_that_move_to_a_file(start: Start, tmp_path: Path, key: str, text: str) -> None:
    """What is forbidden stays so until the restart, and the answer says why; what is not about access changes."""
    broker = begin(start, authorization={"rules": RULES})
    (tmp_path / "rules").write_text(text)
    with connected(broker.address(), 5) as client:
        answer = replace(broker, authorization={key: str(tmp_path / "rules")}, mqtt={"max_packet_size": 5000})
        assert answer["changed"] == ["mqtt.max_packet_size"]
        assert answer["restart"]["authorization.rules[0].permit"] == TOGETHER.format(f"authorization.{key}")
        assert answer["restart"][f"authorization.{key}"] == "it is opened when the broker starts"
        client.send(encode_publish(b"secret/a", b"x", 1, False, False, 9, None, 5))
        assert client.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED


def test_sources_of_what_waits(start: Start, tmp_path: Path) -> None:
    """A value that waits for a restart keeps the source of the one that applies; others have that of the new file."""
    broker = begin(start, authorization={"rules": RULES}, session={"max_inflight": 7})

    def sources() -> dict[str, str]:
        return {each["key"]: each["source"] for each in request(broker.folder / "a.sock", "/api/v1/configuration").json}

    before = sources()
    (tmp_path / "rules").write_text(yaml.safe_dump({"rules": RULES}))
    replace(broker, authorization={"rules_file": str(tmp_path / "rules")})
    after = sources()
    for key in ("authorization.rules[0].permit", "authorization.rules_file"):
        assert after[key] == before[key]
    assert before["session.max_inflight"] != after["session.max_inflight"]


def test_users_that_move_to_a_file(start: Start, tmp_path: Path) -> None:
    """Who does not log in stays refused, and users of SCRAM are let in until the restart."""
    broker = begin(start, **guarded.GUARDED)
    write_users(tmp_path / "users")
    answer = replace(broker, authentication={"password_file": str(tmp_path / "users")})
    assert answer["changed"] == []
    assert "authentication.scram[0].username" in answer["restart"]
    with WireClient(broker.address(), 5) as client:
        assert client.connect().reason_code == reason_codes.NOT_AUTHORIZED
    guarded.authenticated(broker.address()).close()


def test_listener_that_moves(start: Start, tmp_path: Path, certificates: Certificates) -> None:
    """A listener keeps asking for certificates, where it is, until the password file that replaces them is opened."""
    broker = begin(start, Listener("tls", certificates, require_client_certificate=True), allow_anonymous=None)
    written = yaml.safe_load((broker.folder / "sluice.yaml").read_text())
    (listener,) = written["listeners"]
    del listener["tls"]["require_client_certificate"]
    write_users(tmp_path / "users")
    authentication = {"password_file": str(tmp_path / "users")}
    for bind in (listener["bind"], "127.0.0.2:0"):
        new = {"name": "new", "bind": "127.0.0.1:0"}
        answer = replace(broker, listeners=[listener | {"bind": bind}, new], authentication=authentication)
        assert (answer["changed"], answer["opened"], answer["closed"]) == ([], [], [])
        for key in ("listeners[0].tls.require_client_certificate", "listeners[1].bind"):
            assert answer["restart"][key] == TOGETHER.format("authentication.password_file")
        tls = certificates.client_context(with_certificate=False)
        with pytest.raises((ssl.SSLError, ConnectionError)), WireClient(broker.address("tls"), 5, tls=tls) as client:
            client.connect()
    with WireClient(broker.address("tls"), 5, tls=certificates.client_context(with_certificate=True)) as client:
        assert client.connect().reason_code == reason_codes.SUCCESS


@pytest.mark.parametrize("key", ["rules_file", "acl_file", "password_file"])
def test_file_that_is_gone_with_its_key(start: Start, tmp_path: Path, certificates: Certificates, key: str) -> None:
    """Files that are removed with their keys do not refuse a reload: what they held applies until the restart."""
    write_users(tmp_path / "password_file")
    (tmp_path / "acl_file").write_text("topic readwrite public/#\n")
    (tmp_path / "rules_file").write_text(yaml.safe_dump({"rules": RULES}))
    section = "authentication" if key == "password_file" else "authorization"
    own = make_certificates(tmp_path)
    broker = begin(start, Listener("tls", own), **{section: {key: str(tmp_path / key)}, "allow_anonymous": True})
    written = yaml.safe_load((broker.folder / "sluice.yaml").read_text())
    (listener,) = written["listeners"]
    listener["tls"] |= {name: str(getattr(certificates.server, name)) for name in ("certfile", "keyfile")}
    for file in (tmp_path / key, own.server.certfile, own.server.keyfile):
        file.unlink()
    tls = own.client_context(with_certificate=False)
    for _ in range(2):
        answer = replace(broker, listeners=[listener], **{section: {}})
        assert answer["restart"][f"{section}.{key}"] == "it is opened when the broker starts"
        assert answer["restart"]["listeners[0].tls.certfile"] == TOGETHER.format(f"{section}.{key}")
        with WireClient(broker.address("tls"), 5, tls=tls) as client:
            assert client.connect().reason_code == reason_codes.SUCCESS
            if section == "authorization":
                client.send(encode_publish(b"secret/a", b"x", 1, False, False, 9, None, 5))
                assert client.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED


def test_socket_of_systemd_that_waits() -> None:
    """Rules for a listener that only a restart closes stay until then, and so do the other listeners."""
    tcp, unit = settings.Listener(name="tcp", bind="127.0.0.1:0"), settings.Listener(name="unit", bind="systemd:mqtt")
    rules = [Rule.model_validate(rule) for rule in RULES]
    old = settings.Config(listeners=[tcp, unit], authorization=Authorization(rules=rules), allow_anonymous=True)
    other = settings.Listener(name="other", bind="127.0.0.1:0")
    plan = plan_reload(settings.Config(listeners=[other]), old)
    assert (plan.config, plan.changed) == (old, [])
    assert plan.restart["listeners (unit)"] == SYSTEMD
    for key in ("authorization.rules[1].topics[0]", "listeners[0].bind", "listeners (tcp)"):
        assert plan.restart[key] == f"what decides about access changes together, and listeners (unit) waits: {SYSTEMD}"
