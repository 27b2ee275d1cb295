"""Certificates that are renewed in their place while the broker runs, as cert-manager does it in a volume."""

import ssl
from pathlib import Path

import pytest
import trustme

from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.process import BrokerError, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytestmark = pytest.mark.once


class Volume:
    """A folder whose files are links into one that a link is swapped to: all of them change at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = 0
        folder.mkdir()

    def put(self, **files: bytes) -> None:
        """Write all files, and swap the link."""
        self._number += 1
        folder = self.folder / f"..{self._number}"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        (self.folder / "..new").symlink_to(folder.name)
        (self.folder / "..new").rename(self.folder / "..data")

    def put_issued(self, server: trustme.CA, clients: trustme.CA) -> None:
        """Write a certificate of one authority, and another authority for clients."""
        own = server.issue_cert("127.0.0.1")
        certificate = b"".join(each.bytes() for each in own.cert_chain_pems)
        self.put(crt=certificate, key=own.private_key_pem.bytes(), ca=clients.cert_pem.bytes())


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    """The volume of this test."""
    return Volume(tmp_path / "tls")


def over_tls(start: Start, volume: Volume) -> BrokerProcess:
    """A broker that lets clients in by the authorities in the volume."""
    tls = {key: str(volume.folder / name) for key, name in (("certfile", "crt"), ("keyfile", "key"), ("cafile", "ca"))}
    listener = {"name": "mqtts", "bind": "127.0.0.1:0", "tls": tls | {"require_client_certificate": True}}
    return start(sections={"listeners": [listener]})


def context(server: trustme.CA, clients: trustme.CA) -> ssl.SSLContext:
    """A client that trusts one authority, with a certificate of another."""
    made = ssl.create_default_context()
    server.configure_trust(made)
    clients.issue_cert("ann@example.org").configure_cert(made)
    return made


def is_let_in(broker: BrokerProcess, tls: ssl.SSLContext) -> bool:
    """Whether a client gets a session."""
    try:
        with WireClient(broker.address("mqtts"), 5, tls=tls) as client:
            return client.connect().reason_code == 0
    except (ssl.SSLError, ConnectionError):
        return False


def test_renewed_in_a_volume(start: Start, volume: Volume) -> None:
    """Certificate, key and authorities apply to new connections without a reload; who is connected stays."""
    one, two, three = trustme.CA(), trustme.CA(), trustme.CA()
    volume.put_issued(one, two)
    broker = over_tls(start, volume)
    assert not is_let_in(broker, context(one, three))
    with WireClient(broker.address("mqtts"), 5, tls=context(one, two)) as client:
        client.connect()
        volume.put_issued(three, one)
        (read,) = wait_for_event(broker, "file_read")
        keys = [f"listeners (mqtts).tls.{key}" for key in ("certfile", "keyfile", "cafile")]
        assert read["key"] == ", ".join(keys)
        assert is_let_in(broker, context(three, one))
        assert not is_let_in(broker, context(one, two))
        client.expect_nothing_more()


def test_half_of_a_pair(start: Start, volume: Volume) -> None:
    """While certificate and key do not belong together the old ones are used, and the log says so once."""
    one, two = trustme.CA(), trustme.CA()
    volume.put_issued(one, two)
    broker = over_tls(start, volume)
    own = two.issue_cert("127.0.0.1")
    certificate, ca = own.cert_chain_pems[0].bytes(), two.cert_pem.bytes()
    volume.put(crt=certificate, key=(volume.folder / "key").read_bytes(), ca=ca)
    (said,) = wait_for_event(broker, "file_not_read")
    assert "the key is not the one of the certificate" in said["detail"]
    assert is_let_in(broker, context(one, two))
    volume.put(crt=certificate, key=own.private_key_pem.bytes(), ca=ca)
    wait_for_event(broker, "file_read")
    assert is_let_in(broker, context(two, two))
    assert len(events(broker, "file_not_read")) == 1


def test_a_file_is_gone(start: Start, volume: Volume) -> None:
    """A certificate whose file is gone is used on, and the log names the file."""
    one, two = trustme.CA(), trustme.CA()
    volume.put_issued(one, two)
    broker = over_tls(start, volume)
    (volume.folder / "key").unlink()
    (said,) = wait_for_event(broker, "file_not_read")
    assert f"{volume.folder / 'key'}: No such file" in said["detail"]
    wait_until(lambda: is_let_in(broker, context(one, two)), "clients are let in")


@pytest.mark.parametrize("partial", [False, True])
def test_authorities_without_a_root(start: Start, volume: Volume, partial: bool) -> None:
    """With only an intermediate in cafile clients get in if partial_chain is set; else the start says what to do."""
    root = trustme.CA()
    intermediate = root.create_child_ca()
    volume.put_issued(root, intermediate)
    tls = {key: str(volume.folder / name) for key, name in (("certfile", "crt"), ("keyfile", "key"), ("cafile", "ca"))}
    own = tls | {"require_client_certificate": True, "partial_chain": partial}
    sections = {"listeners": [{"name": "mqtts", "bind": "127.0.0.1:0", "tls": own}]}
    if not partial:
        with pytest.raises(BrokerError, match=r"(?s)ended with 2.*there is no root among them.*partial_chain: true"):
            start(sections=sections)
        return
    broker = start(sections=sections)
    assert is_let_in(broker, context(root, intermediate))
    assert not is_let_in(broker, context(root, root))
