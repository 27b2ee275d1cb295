"""The files of a certificate: which of them a reload calls renewed."""

from pathlib import Path

import pytest

from broker.server.tls_files import digests, renewed
from config.tls import Tls

pytestmark = pytest.mark.once


@pytest.fixture
def files(tmp_path: Path) -> Tls:
    """Two files, and no key of its own."""
    for name in ("a.pem", "ca.pem"):
        (tmp_path / name).write_bytes(b"before")
    return Tls(certfile=tmp_path / "a.pem", cafile=tmp_path / "ca.pem")


def test_other_contents(files: Tls) -> None:
    """Files with other contents are renewed, each by itself; to write the same again is nothing."""
    before = digests(files)
    files.certfile.write_bytes(b"before")
    assert renewed(before, digests(files)) == []
    files.certfile.write_bytes(b"after")
    assert renewed(before, digests(files)) == ["certfile"]


def test_other_name(files: Tls, tmp_path: Path) -> None:
    """A file of another name is not renewed: the key has changed. Nor is one that was not named before."""
    before = digests(files)
    (tmp_path / "b.pem").write_bytes(b"after")
    moved = files.model_copy(update={"certfile": tmp_path / "b.pem", "keyfile": tmp_path / "b.pem"})
    assert renewed(before, digests(moved)) == []


def test_missing(files: Tls) -> None:
    """A file that is not there is an error."""
    files.certfile.unlink()
    with pytest.raises(FileNotFoundError):
        digests(files)
