"""The first steps in the README, as they are written there: a broker with TLS and two users."""

import re
import shlex
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from protocol.connack import Connack
from protocol.connect import Connect
from tests.support.process import Address, BrokerProcess, clean_environment, free_port
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

README: Final = (Path(__file__).parent.parent / "README.md").read_text()
SECTION: Final = README.partition("### With TLS and users\n")[2].partition("\n## ")[0]


def blocks() -> list[str]:
    """The code blocks of the section: commands, configuration, commands."""
    return re.findall(r"```\w*\n(.*?)```", SECTION, flags=re.DOTALL)


def password(user: str) -> str:
    """What the reader thinks of."""
    return f"{user}'s horse"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls_and_users(tmp_path: Path) -> None:
    """What is written there makes a certificate and users, and a broker that lets in those two and nobody else."""
    before, configuration, after = blocks()
    for line in before.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == ".venv/bin/sluice":
            command = [sys.executable, "-m", "broker", *words[1:]]
            told = password(words[3]).encode()
            done = subprocess.run(command, cwd=tmp_path, input=told, check=False, timeout=60)
        else:
            done = subprocess.run(words, cwd=tmp_path, check=False, timeout=60)
        assert done.returncode == 0, line
    address = Address("127.0.0.1", free_port())
    assert yaml.safe_load(configuration)["listeners"][0]["bind"] == "127.0.0.1:8883"
    (tmp_path / "sluice.yaml").write_text(configuration.replace(":8883", f":{address.port}"))
    assert 'ARGS="--config sluice.yaml"' in after
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path))
    with BrokerProcess(["run", "--config", "sluice.yaml"], tmp_path, environment, forked_on="asyncio") as broker:
        broker.wait_until_accepting(address)
        context = ssl.create_default_context(cafile=tmp_path / "server.pem")
        seen = {}
        for user, secret in (("ann", password("ann")), ("bob", password("bob")), ("bob", password("ann"))):
            with WireClient(address._replace(host="localhost"), 5, tls=context) as client:
                client.send(Connect("", True, username=user, password=secret.encode(), version=5))
                seen[user, secret] = client.expect(Connack).reason_code
    assert list(seen.values()) == [0, 0, 0x86]
