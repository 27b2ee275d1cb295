"""Bind addresses: written form, loopback, clashes."""

import pytest

from config import bind_address

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:1883", "127.0.0.1", 1883),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::1]:8883", "::1", 8883),
        ("[::]:65535", "::", 65535),
        ("[fe80::1%eth0]:1883", "fe80::1%eth0", 1883),
        ("localhost:1883", "localhost", 1883),
        ("broker-1.example.com.:1883", "broker-1.example.com.", 1883),
        (" 127.0.0.1:1883 ", "127.0.0.1", 1883),
    ],
)
def test_parse(text: str, host: str, port: int) -> None:
    """A bind address is a host (IPv6 in brackets) and a port."""
    address = bind_address.parse(text)
    assert (address.host, address.port, address.text) == (host, port, text.strip())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1883, "found 1883"),
        (None, "found nothing"),
        ("127.0.0.1", "no port"),
        ("127.0.0.1:", "is not a port"),
        ("127.0.0.1:mqtt", "'mqtt' is not a port"),
        ("127.0.0.1:65536", "'65536' is not a port"),
        ("127.0.0.1:-1", "'-1' is not a port"),
        ("127.0.0.1:٣", "is not a port"),
        (":1883", "0.0.0.0:port"),
        ("*:1883", "0.0.0.0:port"),
        ("::1:1883", "without brackets"),
        ("[::1:1883", "without brackets"),
        ("[::g]:1883", "'::g' is not an IPv6 address"),
        ("[127.0.0.1]:1883", "is not an IPv6 address"),
        ("256.0.0.1:1883", "is not an IPv4 address"),
        ("1.2.3:1883", "is not an IPv4 address"),
        ("a b:1883", "is not a host name"),
        ("-a.example:1883", "is not a host name"),
        ("a..b:1883", "is not a host name"),
        (("a" * 64) + ":1", "is not a host name"),
        (".".join(["a" * 60] * 5) + ":1", "is not a host name"),
        ("mqtt://localhost:1883", "without brackets"),
    ],
)
def test_refused(value: object, message: str) -> None:
    """An invalid bind address is refused; the message names the wrong part."""
    with pytest.raises(ValueError, match=r"write host:port|write 0\.0\.0\.0:port") as caught:
        bind_address.parse(value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("[::1]", True),
        ("[::ffff:127.0.0.1]", True),
        ("localhost", True),
        ("LocalHost.", True),
        ("0.0.0.0", False),
        ("[::]", False),
        ("[::ffff:10.0.0.1]", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("broker", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    """Loopback is 127.0.0.0/8, ::1 and localhost; no other name counts as loopback."""
    assert bind_address.parse(f"{host}:1883").is_loopback is loopback


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("127.0.0.1:1883", "127.0.0.1:1883", True),
        ("127.0.0.1:1883", "127.0.0.1:1884", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
        ("127.0.0.1:1883", "127.0.0.2:1883", False),
        ("0.0.0.0:1883", "127.0.0.1:1883", True),
        ("[::]:1883", "[::1]:1883", True),
        ("[::]:1883", "0.0.0.0:1883", False),
        ("[::1]:1883", "[0:0::1]:1883", True),
        ("localhost:1883", "LOCALHOST:1883", True),
        ("localhost:1883", "127.0.0.1:1883", True),
        ("localhost:1883", "[::1]:1883", True),
        ("localhost:1883", "[::]:1883", True),
        ("localhost:1883", "127.0.0.2:1883", False),
        ("broker:1883", "127.0.0.1:1883", False),
    ],
)
def test_clashes(one: str, other: str, clash: bool) -> None:
    """Two bind addresses clash if they cannot be bound at once."""
    assert bind_address.parse(one).clashes(bind_address.parse(other)) is clash
    assert bind_address.parse(other).clashes(bind_address.parse(one)) is clash


def test_unix_socket_and_systemd() -> None:
    """A path is on this machine only; what systemd passes may be open to all. Each clashes with itself only."""
    path, unit = bind_address.parse("unix:/run/a.sock"), bind_address.parse("systemd:mqtt")
    assert (path.path, path.is_loopback, unit.unit, unit.is_loopback) == ("/run/a.sock", True, "mqtt", False)
    assert path.clashes(bind_address.parse("unix:/run/a.sock"))
    assert unit.clashes(bind_address.parse("systemd:mqtt"))
    for one, other in ((path, unit), (path, bind_address.parse("unix:/run/b.sock"))):
        assert not one.clashes(other)
    for one in (path, unit):
        for other in (bind_address.parse("127.0.0.1:0"), bind_address.parse("127.0.0.1:1883")):
            assert not one.clashes(other)
            assert not other.clashes(one)


@pytest.mark.parametrize("text", ["unix:", "unix:" + "x" * 108, "unix:a\0b", "systemd:", "systemd:a b", "systemd:a:b"])
def test_what_is_not_a_path_or_a_name(text: str) -> None:
    """The message says what to write."""
    with pytest.raises(ValueError, match=r"write unix: and the path|write systemd: and the FileDescriptorName="):
        bind_address.parse(text)
