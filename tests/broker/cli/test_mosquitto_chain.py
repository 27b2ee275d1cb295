"""`sluice import mosquitto`: intermediate certificates that Mosquitto sends from its cafile."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
import yaml

from tests.broker.cli.test_importing import import_from

pytestmark = pytest.mark.once


@pytest.mark.parametrize("key", ["cafile", "capath"])
@pytest.mark.parametrize("complete", [False, True])
def test_chain_in_cafile(tmp_path: Path, complete: bool, key: str) -> None:
    """A cafile or capath with an intermediate that certfile lacks is told, with status 1; one that it has is not."""
    root = trustme.CA()
    authority = root.create_child_ca()
    server = authority.issue_cert("localhost")
    leaf, *others = server.cert_chain_pems
    assert others
    certificates = [leaf, *(others if complete else [])]
    (tmp_path / "server.pem").write_bytes(b"".join(each.bytes() for each in certificates))
    if key == "cafile":
        (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes() + root.cert_pem.bytes())
    else:
        (tmp_path / "ca.pem").mkdir()
        for name, each in (("0a1b2c3d.0", root), ("0a1b2c3e.0", authority)):  # OpenSSL looks for files by such names
            each.cert_pem.write_to_path(str(tmp_path / "ca.pem" / name))
    server.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    (tmp_path / "mosquitto.conf").write_text(
        f"listener 8883\nallow_anonymous true\n{key} ca.pem\ncertfile server.pem\nkeyfile server.key\n"
    )
    output = tmp_path / "sluice.yaml"
    status, _, err = import_from(tmp_path, "-o", output)
    assert status == (0 if complete else 1)
    assert (f"{tmp_path}/mosquitto.conf:3 {key} ca.pem: Mosquitto sends intermediate" in err) != complete
    assert "cafile" not in yaml.safe_load(output.read_text())["listeners"][0]["tls"]


def test_capath_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder that the importing user may not list is named, with status 1."""

    def refused(_: Path) -> list[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)  # root, who runs tests in containers, may list any folder
    _write(trustme.CA().issue_cert("localhost"), tmp_path)
    (tmp_path / "authorities").mkdir()
    (tmp_path / "mosquitto.conf").write_text(
        "listener 8883\nallow_anonymous true\ncapath authorities\ncertfile server.pem\nkeyfile server.key\n"
    )
    status, _, err = import_from(tmp_path / "mosquitto.conf", "-o", tmp_path / "sluice.yaml")
    assert (status, "capath authorities: the folder cannot be read: Permission denied" in err) == (1, True)


def _expired(authority: trustme.CA, folder: Path) -> None:
    _write(authority.issue_cert("localhost", not_after=datetime(2020, 1, 1, tzinfo=UTC)), folder)


def _of_another_key(authority: trustme.CA, folder: Path) -> None:
    _write(authority.issue_cert("localhost"), folder)
    authority.issue_cert("localhost").private_key_pem.write_to_path(str(folder / "server.key"))


def _write(server: trustme.LeafCert, folder: Path) -> None:
    (folder / "server.pem").write_bytes(b"".join(each.bytes() for each in server.cert_chain_pems))
    server.private_key_pem.write_to_path(str(folder / "server.key"))


@pytest.mark.parametrize(("write", "why"), [(_expired, "expired"), (_of_another_key, "key")])
def test_certificates_are_looked_at(tmp_path: Path, write: Callable[[trustme.CA, Path], None], why: str) -> None:
    """What `config check` would refuse about certificates is told by the import, with status 1."""
    write(trustme.CA(), tmp_path)
    (tmp_path / "mosquitto.conf").write_text(
        "listener 8883\nallow_anonymous true\ncertfile server.pem\nkeyfile server.key\n"
    )
    output = tmp_path / "sluice.yaml"
    status, _, err = import_from(tmp_path, "-o", output)
    assert (status, why in err, output.exists()) == (1, True, True)
