"""`sluice import mosquitto`: intermediate certificates that Mosquitto sends from its cafile."""

from pathlib import Path

import pytest
import trustme
import yaml

from tests.broker.cli.test_importing import import_from

pytestmark = pytest.mark.once


@pytest.mark.parametrize("complete", [False, True])
def test_chain_in_cafile(tmp_path: Path, complete: bool) -> None:
    """A cafile with an intermediate that certfile lacks is told, with status 1; one that it has is not."""
    root = trustme.CA()
    authority = root.create_child_ca()
    server = authority.issue_cert("localhost")
    leaf, *others = server.cert_chain_pems
    assert others
    certificates = [leaf, *(others if complete else [])]
    (tmp_path / "server.pem").write_bytes(b"".join(each.bytes() for each in certificates))
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes() + root.cert_pem.bytes())
    server.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    (tmp_path / "mosquitto.conf").write_text(
        "listener 8883\nallow_anonymous true\ncafile ca.pem\ncertfile server.pem\nkeyfile server.key\n"
    )
    output = tmp_path / "sluice.yaml"
    status, _, err = import_from(tmp_path, "-o", output)
    assert status == (0 if complete else 1)
    assert (f"{tmp_path}/mosquitto.conf:3 cafile ca.pem: Mosquitto sends intermediate" in err) != complete
    assert "cafile" not in yaml.safe_load(output.read_text())["listeners"][0]["tls"]
