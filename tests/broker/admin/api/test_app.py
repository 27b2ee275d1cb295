"""The admin API against its own OpenAPI document: requests that schemathesis makes from it, right and wrong ones."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.admin.api.conftest import OPERATOR
from tests.support.broker.admin import request
from tests.support.process import Address, BrokerProcess
from tests.support.wire import connected

pytestmark = pytest.mark.once

PROGRAM = shutil.which("schemathesis", path=str(Path(sys.executable).parent))

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.skipif(PROGRAM is None, reason="schemathesis is not installed (the extra `dev` has it)")
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_fuzzed(broker: BrokerProcess, path: Path, tcp: Address, tmp_path: Path) -> None:
    """No request is answered with 5xx, in a form that the document does not name, or without a token."""
    document = tmp_path / "openapi.json"
    document.write_text(request(path, "/api/v1/openapi.json").text)
    with connected(broker.address(), 5, client_id="0") as client:  # "0" is what is tried first
        client.subscribe("0", "$share/0/0", qos=1)
        client.publish("0", b"0", retain=True)
        url, token = f"http://{tcp.host}:{tcp.port}", f"Authorization: Bearer {OPERATOR}"
        command = [str(PROGRAM), "--config-file", str(CONFIGURATION), "--no-color", "run", str(document)]
        done = subprocess.run(
            [*command, "--url", url, "-H", token], capture_output=True, text=True, check=False, cwd=tmp_path
        )
    assert done.returncode == 0, done.stdout[-20_000:]
    broker.assert_healthy()
