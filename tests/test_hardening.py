"""The steps of SECURITY.md, as they are written there: a hardened broker, and what it protects."""

import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.steps import COMMAND, blocks, carry_out, start
from tests.support.wire import WireClient

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]

DOCUMENT: Final = (Path(__file__).parent.parent / ".github" / "SECURITY.md").read_text()
DENIED: Final = reason_codes.NOT_AUTHORIZED
NAME: Final = "hardened.yaml"


def password(user: str) -> str:
    """What the reader thinks of."""
    return f"{user}'s horse"


def test_hardened_broker(tmp_path: Path) -> None:
    """What is written there makes a broker whose users may do what its rules say, within their quotas, and no more."""
    before, configuration, after = blocks(DOCUMENT, "## A hardened broker, step by step")
    carry_out(before, tmp_path, password)
    (tmp_path / NAME).write_text(configuration)
    check, run, *clients = after.splitlines()
    assert check == f"{COMMAND} config check {NAME}"
    assert run.startswith(f"{COMMAND} run --config {NAME}")
    checked = subprocess.run([sys.executable, "-m", "broker", "config", "check", NAME], cwd=tmp_path, check=False)
    assert checked.returncode == 0
    broker, address = start(configuration, NAME, tmp_path)
    context = ssl.create_default_context(cafile=tmp_path / "server.pem")

    def enter(user: str | None, client_id: str = "", properties: Properties | None = None) -> tuple[WireClient, int]:
        client = WireClient(address, 5, tls=context)
        secret = None if user is None else password(user).encode()
        client.send(Connect(client_id, True, 0, username=user, password=secret, properties=properties, version=5))
        return client, client.expect(Connack).reason_code

    def publish(client: WireClient, topic: str) -> int:
        client.send(Publish(topic.encode(), b"21.5 C", 1, packet_id=1))
        return client.expect(Puback).reason_code

    def subscribe(client: WireClient, topic_filter: str) -> int:
        client.send(Subscribe(1, [Subscription(topic_filter)]))
        return client.expect(Suback).reason_codes[0]

    with broker:
        ann, code = enter("ann", "console")
        assert code == 0
        bed, code = enter("bed1", "bed1", {props.SESSION_EXPIRY_INTERVAL: 60})
        assert code == 0
        with ann, bed:
            assert [subscribe(ann, each) for each in ("sensors/#", "commands/#")] == [0, DENIED]
            assert [subscribe(bed, each) for each in ("commands/bed1/#", "commands/#")] == [0, DENIED]
            for line, came in zip(clients[1:], (True, False), strict=True):
                topic = line.partition("-t ")[2].split()[0]
                assert publish(bed, topic) == (0 if came else DENIED)
                if came:
                    assert ann.receive_message().topic == topic.encode()
            ann.send(Publish(b"commands/bed1/window", b"open"))
            assert bed.receive_message().payload == b"open"
            for user, client_id, expected in (
                (None, "", DENIED),
                ("ann", "bed1", DENIED),  # it is bed1's session
                ("bed1", "second", 0),
            ):
                client, code = enter(user, client_id)
                assert (user, client_id, code) == (user, client_id, expected)
                if client_id == "second":
                    third, code = enter("bed1", "third")
                    third.close()
                    assert code == reason_codes.QUOTA_EXCEEDED
                client.close()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            WireClient(address, 5, tls=context)
        broker.assert_healthy()
