"""Reload, and the files that the broker follows: when it has answered, what they hold applies."""

import signal
from os import kill, truncate
from pathlib import Path
from typing import Any

import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.publish import encode_publish
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.logins import PASSWORDS, code, log_in, sections, write_users
from tests.support.broker.reloads import reload
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

ADMIN: Any = {"admin": {"socket": "a.sock"}}
MAY = {"acl_file": "topic readwrite t\n", "rules_file": "rules:\n- {permit: allow, topics: [t]}\n"}
MAY_NOT = {"acl_file": "topic read t\n", "rules_file": "rules:\n- {permit: deny, topics: [t]}\n"}


def with_rules(start: Start, tmp_path: Path, key: str) -> tuple[BrokerProcess, Path]:
    """A broker whose rules are in a file, and the file."""
    file = tmp_path / key
    file.write_text(MAY[key])
    broker = start(sections=ADMIN | {"authorization": {key: str(file), "default": "deny"}})
    wait_for_event(broker, "admin_socket")
    return broker, file


def may_publish(client: WireClient) -> bool:
    """Whether the client's next PUBLISH to the topic is accepted."""
    client.send(encode_publish(b"t", b"x", 1, False, False, 9, None, 5))
    return client.expect(Puback).reason_code != reason_codes.NOT_AUTHORIZED


@pytest.mark.parametrize("key", MAY)
def test_rules(start: Start, tmp_path: Path, key: str) -> None:
    """A client that is connected may not publish any more from the answer on, which names the file, and only once."""
    broker, file = with_rules(start, tmp_path, key)
    with connected(broker.address(), 5) as client:
        for text, allowed in [(MAY_NOT[key], False), (MAY[key], True)] * 3:
            file.write_text(text)
            answer = reload(broker).json
            assert may_publish(client) is allowed
            assert (answer["changed"], answer["renewed"]) == ([], [f"authorization.{key}"])
        assert reload(broker).json["renewed"] == []
    assert wait_for_event(broker, "audit", 6)[5]["result"] == f"renewed: authorization.{key}"


def test_users(start: Start, tmp_path: Path) -> None:
    """A user who is removed is disconnected, and not let in, when the reload has answered; others stay."""
    file = write_users(tmp_path / "users")
    broker = start(sections=sections(file) | ADMIN)
    wait_for_event(broker, "admin_socket")
    with (
        log_in(broker.address(), "ann", PASSWORDS["ann"]) as ann,
        log_in(broker.address(), "ben", PASSWORDS["ben"]) as ben,
    ):
        for client in (ann, ben):
            client.expect(Connack)
        file.write_text(file.read_text().splitlines()[0] + "\n")
        assert reload(broker).json["renewed"] == ["authentication.password_file"]
        assert code(broker.address(), "ben", PASSWORDS["ben"]) == reason_codes.BAD_USER_NAME_OR_PASSWORD
        assert ben.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
        ann.expect_nothing_more()


def test_what_the_broker_has_read_before(start: Start, tmp_path: Path) -> None:
    """A file that the broker has read by itself meanwhile is named by the next reload all the same."""
    broker, file = with_rules(start, tmp_path, "acl_file")
    file.write_text(MAY_NOT["acl_file"])
    wait_for_event(broker, "file_read")
    kill(broker.pid, signal.SIGHUP)
    assert wait_for_event(broker, "reloaded")[0]["renewed"] == ["authorization.acl_file"]


def test_mistake_in_a_file(start: Start, tmp_path: Path) -> None:
    """A file with a mistake refuses the reload, also what else it would change, and is named with the mistake."""
    broker, file = with_rules(start, tmp_path, "acl_file")
    written = broker.folder / "sluice.yaml"
    written.write_text(written.read_text().replace("level: info", "level: debug"))
    file.write_text("topic write t\nnonsense\n")
    answer = reload(broker)
    assert answer.status == 422
    assert f"authorization.acl_file: {file}: line 2: found 'nonsense'" in answer.json["detail"]
    with connected(broker.address(), 5) as client:
        assert may_publish(client)
    file.write_text(MAY_NOT["acl_file"])
    assert reload(broker).json["changed"] == ["log.level"]  # it has not been changed before


def test_file_that_becomes_huge(start: Start, tmp_path: Path, certificates: Certificates) -> None:
    """A file that has become far too large takes no memory: the log and a reload say so, and the old one applies."""
    names = ("acl_file", "rules_file", "key_file", "certfile", "cafile")
    files = {key: tmp_path / key for key in names}
    contents = MAY | {"key_file": "k" * 64, "cafile": certificates.cafile.read_text()}
    contents["certfile"] = certificates.server.certfile.read_text()
    for key in names:
        files[key].write_text(contents[key])
    named = {key: str(file) for key, file in files.items()}
    tls = {"certfile": named["certfile"], "keyfile": str(certificates.server.keyfile), "cafile": named["cafile"]}
    listeners = [{"name": "mqtt", "bind": "127.0.0.1:0"}, {"name": "s", "bind": "127.0.0.1:0", "tls": tls}]
    own = sections(write_users(tmp_path / "users"), listeners=listeners, authorization={key: named[key] for key in MAY})
    own["authentication"]["jwt"] = {"algorithms": ["HS256"], "key_file": named["key_file"]}
    broker = start((Listener("mqtt"),), sections=own | ADMIN)
    wait_for_event(broker, "admin_socket")
    before = peak(broker)
    for count, file in enumerate((tmp_path / "users", *files.values()), 1):
        kept = file.read_bytes()
        truncate(file, 512 * 1024**2)
        error = wait_for_event(broker, "file_not_read", count)[count - 1]
        assert "has 536870912 bytes: expected at most " in error["detail"]
        answer = reload(broker)
        assert (answer.status, "has 536870912 bytes: expected at most " in answer.json["detail"]) == (422, True)
        file.write_bytes(kept)
        wait_for_event(broker, "file_read", count)
    assert peak(broker) - before < 64 * 1024**2
    assert code(broker.address("mqtt"), "ben", PASSWORDS["ben"]) == reason_codes.SUCCESS


def peak(broker: BrokerProcess) -> int:
    """The most memory that the broker has had at once, in bytes."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
