"""The first steps in the README, as they are written there: a broker with TLS and two users."""

import shutil
import ssl
from pathlib import Path
from typing import Final

import pytest

from protocol.connack import Connack
from protocol.connect import Connect
from tests.support.steps import blocks, carry_out, start
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

README: Final = (Path(__file__).parent.parent / "README.md").read_text()


def password(user: str) -> str:
    """What the reader thinks of."""
    return f"{user}'s horse"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls_and_users(tmp_path: Path) -> None:
    """What is written there makes a certificate and users, and a broker that lets in those two and nobody else."""
    before, configuration, run, *_ = blocks(README, "### With TLS and users")
    carry_out(before, tmp_path, password)
    assert 'ARGS="--config sluice.yaml"' in run
    broker, address = start(configuration, "sluice.yaml", tmp_path)
    with broker:
        context = ssl.create_default_context(cafile=tmp_path / "server.pem")
        seen = {}
        for user, secret in (("ann", password("ann")), ("bob", password("bob")), ("bob", password("ann"))):
            with WireClient(address, 5, tls=context) as client:
                client.send(Connect("", True, username=user, password=secret.encode(), version=5))
                seen[user, secret] = client.expect(Connack).reason_code
    assert list(seen.values()) == [0, 0, 0x86]
