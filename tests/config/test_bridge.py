"""Bridges: addresses, topics, defaults, what is refused and what is said about it."""

import math
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

import config
from broker.cli.main import app
from broker.server.reload import plan_reload, sources_after
from config.bridge import PORTS, Bridge, RemoteAddress, parse_address
from config.layers import dotted
from config.render import render

pytestmark = pytest.mark.once

TOPICS = [{"filter": "a/#"}]
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"


def bridge(**keys: Any) -> Bridge:
    """A bridge with these keys, and what it needs."""
    return Bridge.model_validate({"name": "b", "address": "h", "topics": TOPICS} | keys)


def loaded(path: Path, *bridges: dict[str, Any]) -> config.Loaded:
    """A configuration with these bridges, each with what it needs."""
    keys = [{"name": f"b{index}", "address": "h", "topics": TOPICS} | each for index, each in enumerate(bridges)]
    return config.load(None, {}, {"bridges": keys, "metrics.directory": path / "metrics"})


def problems(path: Path, *bridges: dict[str, Any]) -> dict[str, str]:
    """What is wrong with it, by key."""
    with pytest.raises(config.ConfigError) as caught:
        loaded(path, *bridges)
    return {each.path: each.message for each in caught.value.problems}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h", RemoteAddress("mqtt", "h", 1883, "")),
        (" broker-1.example.com. ", RemoteAddress("mqtt", "broker-1.example.com.", 1883, "")),
        ("10.0.0.5:1884", RemoteAddress("mqtt", "10.0.0.5", 1884, "")),
        ("[::1]", RemoteAddress("mqtt", "::1", 1883, "")),
        ("[fe80::1%eth0]:1884", RemoteAddress("mqtt", "fe80::1%eth0", 1884, "")),
        ("mqtt://h/", RemoteAddress("mqtt", "h", 1883, "")),
        ("MQTTS://h", RemoteAddress("mqtts", "h", 8883, "")),
        ("ws://h", RemoteAddress("ws", "h", 80, "/mqtt")),
        ("ws://h/", RemoteAddress("ws", "h", 80, "/")),
        ("wss://[2001:db8::1]:8084/a/b?c=d&e", RemoteAddress("wss", "2001:db8::1", 8084, "/a/b?c=d&e")),
        ("wss://h?token=t", RemoteAddress("wss", "h", 443, "/mqtt?token=t")),
    ],
)
def test_addresses(text: str, address: RemoteAddress) -> None:
    """An address is a scheme, a host, a port and for WebSocket a path, of which only the host has to be there."""
    assert parse_address(text) == address
    assert (address.tls, address.websocket) == (address.scheme in ("mqtts", "wss"), address.scheme in ("ws", "wss"))


@pytest.mark.parametrize(
    "value",
    [
        *(None, 1883, True, {}, "", "mqtt://", ":1883", "/mqtt", "h:", "h:0", "h:65536", "h:-1", "h:x", "h:٣", "a b"),
        *(
            "tcp://h",
            "http://h",
            "mqtt:/h",
            "unix:/run/s",
            "unix:1883",
            "systemd:1",
            "-h",
            "a..b",
            "256.0.0.1",
            "h\n:1",
        ),
        *("::1", "2001:db8::1:1883", "[::1", "[::g]", "[h]", "[::1]1883", "[127.0.0.1]", "mqtt://h/a", "mqtts://h?a"),
        *("wss://h/a#b", "wss://h/a b", "wss://h/ü", "h\0"),
    ],
)
def test_wrong_addresses(value: object) -> None:
    """Anything else is refused, and the message says what to write."""
    with pytest.raises(ValueError, match=r"^found .*: write mqtt://host:port, mqtts://host:port \(TLS\), ws://"):
        parse_address(value)


@pytest.mark.parametrize("text", ["mqtts://ann:secret-word@h", "ann:secret-word@h:1883", "ftp://h/a?key=secret-word"])
def test_secrets_in_wrong_addresses(text: str, tmp_path: Path) -> None:
    """A password in an address is refused, and is not in the message, alone or in a list."""
    for address in (text, ["h", text]):
        (message,) = problems(tmp_path, {"address": address}).values()
        assert "secret-word" not in message
        assert "write" in message


HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z][a-z0-9]{0,5})?", fullmatch=True).filter(
        lambda host: not host.replace(".", "").isdigit()
    ),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda each: f"[{each}]"),
)


@given(
    st.sampled_from(["", *(f"{scheme}://" for scheme in PORTS)]),
    HOSTS,
    st.one_of(st.just(""), st.integers(1, 65_535).map(":{}".format)),
    st.from_regex(r"(/[a-z0-9%/_.~-]{0,10})?(\?[a-z0-9=&%-]{0,10})?", fullmatch=True),
)
def test_written_addresses(scheme: str, host: str, port: str, path: str) -> None:
    """What is written of an address is the same address, with its port."""
    try:
        address = parse_address(scheme + host + port + (path if scheme.startswith("ws") else ""))
    except ValueError:
        assert host in ("unix", "systemd")
        return
    assert parse_address(str(address)) == address
    assert str(address).startswith(scheme or "mqtt://")
    assert address.port == (int(port[1:]) if port else PORTS[address.scheme])
    assert address.host == host.strip("[]") or IPv6Address(address.host) == IPv6Address(host.strip("[]"))


@given(st.text(max_size=40))
def test_any_address(text: str) -> None:
    """A text is an address that can be written and read again, or is refused."""
    try:
        address = parse_address(text)
    except ValueError:
        return
    assert parse_address(str(address)) == address


def test_defaults() -> None:
    """A name, an address and a topic are enough."""
    found = bridge()
    values = found.model_dump()
    assert {key for key, value in values.items() if value is None} == {
        *("client_id", "username", "password_file", "user", "state_topic", "will", "tls", "session")
    }
    assert values["topics"] == [
        {"filter": "a/#", "direction": "out", "qos": 2, "local_prefix": "", "remote_prefix": ""},
    ]
    assert {key: value for key, value in values.items() if not isinstance(value, list | None)} == {
        "name": "b",
        "enabled": True,
        "address_order": "in_order",
        "proto_ver": "5",
        "try_private": True,
        "start": "automatic",
        "lazy_threshold": 10,
        "lazy_idle": 60.0,
        "keepalive": 60.0,
        "clean_start": False,
        "session_expiry_interval": math.inf,
        "reconnect_min": 1.0,
        "reconnect_max": 60.0,
        "outgoing_retain": True,
    }
    assert bridge(address="h", tls=None).remotes == [RemoteAddress("mqtt", "h", 1883, "")]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": "a/b"}, "beginning with a letter or digit"),
        ({"address": []}, "found an empty list: write mqtt://host:port"),
        ({"address": ["h", 5]}, "found 5: write mqtt://host:port"),
        ({"proto_ver": "3.1"}, "Input should be '5' or '3.1.1'"),
        ({"topics": []}, "at least 1 item"),
        ({"lazy_threshold": 0}, "greater than or equal to 1"),
        ({"lazy_idle": 0.5}, "greater than or equal to 1"),
        ({"keepalive": 1.5}, "found 1.5s: write whole seconds, 1s to 65535s"),
        ({"keepalive": 0}, "greater than or equal to 1"),
        ({"keepalive": 65_536}, "less than or equal to 65535"),
        ({"reconnect_min": 0.05}, "greater than or equal to 0.1"),
        ({"reconnect_max": 3601}, "less than or equal to 3600"),
        ({"reconnect_min": 5, "reconnect_max": 4}, "reconnect_max must not be less than reconnect_min"),
        ({"client_id": ""}, "write 1 to 65535 bytes"),
        ({"user": ""}, "write 1 to 65535 bytes"),
        ({"password_file": ""}, "found an empty path"),
        ({"password_file": "p", "proto_ver": "3.1.1"}, "password_file without username: MQTT 3.1.1"),
        ({"state_topic": "a/+"}, r"found 'a/\+': write it without \+ and #"),
        ({"will": {"topic": "a/#"}}, r"found 'a/#': write it without \+ and #"),
        ({"will": {"topic": ""}}, "write 1 to 65535 bytes"),
        ({"will": {"topic": "a", "payload": "ü" * 40_000}}, "found 80000 bytes: write at most 65535"),
        ({"will": {"topic": "a"}, "state_topic": "b"}, "write state_topic or will"),
        ({"tls": {}}, "tls is set, but no address has TLS: write mqtts:// or wss://"),
        ({"address": "mqtts://h", "tls": {"keyfile": "k"}}, "keyfile is the private key of certfile"),
        ({"address": "mqtts://h", "tls": {"ciphers": "RC4"}}, "write ciphers|which leaves no cipher|RC4"),
        (
            {"address": "mqtts://h", "tls": {"ciphers": "ECDHE+AESGCM", "minimum_version": "1.3"}},
            "ciphers are those of TLS 1.2",
        ),
        *(
            ({"address": "mqtts://h", "tls": {"alpn": [name]}}, "write the name of a protocol such as mqtt")
            for name in ("", "ü", "a" * 256, "a\n")
        ),
        *(
            ({"address": "mqtts://h", "tls": {"server_name": name}}, "write a host name such as mqtt.example.com")
            for name in ("", ".h", "a..b", "h:1", "mqtts://h", "*.h", "h/", "h\0")
        ),
        ({"start": "lazy", "topics": [{"filter": "a", "direction": "in"}]}, "start: lazy is for topics that go out"),
        ({"start": "lazy", "clean_start": True}, "set clean_start: false"),
        ({"session": {"conflate": ["a"]}}, "write it in session"),
    ],
)
def test_refused(keys: dict[str, Any], message: str) -> None:
    """A value or a combination that makes no sense is refused, and the message says what to write."""
    with pytest.raises(ValidationError, match=message):
        bridge(**keys)


@pytest.mark.parametrize(
    ("keys", "local", "remote"),
    [
        ({"filter": "a/#"}, "a/#", "a/#"),
        ({"filter": "#", "local_prefix": "l/", "remote_prefix": "r/"}, "l/#", "r/#"),
        ({"filter": "a/+", "remote_prefix": "$aws/"}, "a/+", "$aws/a/+"),
        ({"filter": "a", "local_prefix": "l"}, "la", "a"),
        ({"local_prefix": "here", "remote_prefix": "there"}, "here", "there"),
        ({"filter": "$SYS/#", "remote_prefix": "r/"}, "$SYS/#", "r/$SYS/#"),
        ({"filter": "broker/#", "direction": "in", "local_prefix": "r/", "remote_prefix": "$SYS/"}, "r/broker/#", None),
    ],
)
def test_topics(keys: dict[str, Any], local: str, remote: str | None) -> None:
    """Prefixes stand before the filter on their side; without a filter they are the names of one topic."""
    (topic,) = bridge(topics=[keys]).topics
    assert (topic.local_filter, topic.remote_filter) == (local, remote or "$SYS/broker/#")
    assert (topic.goes_out, topic.comes_in) == (topic.direction == "out", topic.direction == "in")


def test_both_directions() -> None:
    """Both are out and in."""
    (topic,) = bridge(topics=[{"filter": "a", "direction": "both"}]).topics
    assert (topic.goes_out, topic.comes_in) == (True, True)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "without filter, the prefixes are the two names of one topic: write both"),
        ({"local_prefix": "a"}, "write both"),
        ({"remote_prefix": "a"}, "write both"),
        ({"filter": ""}, "write a topic filter"),
        ({"filter": "a#"}, "write a topic filter"),
        ({"filter": "$share/g/a"}, r"without \$share"),
        ({"filter": "a", "qos": 3}, "less than or equal to 2"),
        ({"filter": "a", "direction": "up"}, "'out', 'in' or 'both'"),
        ({"filter": "a", "local_prefix": "+/"}, r"found '\+/': write it without \+ and #"),
        ({"filter": "a", "remote_prefix": "#"}, r"write it without \+ and #"),
        ({"filter": "#", "local_prefix": "a"}, "local_prefix and filter together: found 'a#': write a topic filter"),
        ({"filter": "+/a", "remote_prefix": "b"}, r"remote_prefix and filter together: found 'b\+/a'"),
        ({"filter": "a", "remote_prefix": "$share/g/"}, r"remote_prefix and filter together: .*without \$share"),
        ({"filter": "a", "local_prefix": "\0"}, "local_prefix and filter together"),
        ({"filter": "a" * 40_000, "local_prefix": "b" * 40_000}, "local_prefix and filter together"),
        ({"filter": "$SYS/#", "direction": "in"}, r"only the broker publishes under \$SYS"),
        ({"filter": "a", "direction": "both", "local_prefix": "$SYS/"}, r"only the broker publishes under \$SYS"),
    ],
)
def test_wrong_topics(keys: dict[str, Any], message: str) -> None:
    """Topics that no broker could take are refused, and the message says which side is wrong."""
    with pytest.raises(ValidationError, match=message):
        bridge(topics=[keys])


@pytest.mark.parametrize("name", ["h", "mqtt.example.com", "10.0.0.5", "2001:db8::1"])
def test_server_name(name: str) -> None:
    """The name in a certificate may be one of a host, or an address without brackets."""
    tls = bridge(address="wss://h", tls={"server_name": name}).tls
    assert tls is not None
    assert tls.server_name == name


def test_one_address_or_several() -> None:
    """One address may stand for a list; all are written whole."""
    assert bridge(address="H").address == ["mqtt://H:1883"]
    assert bridge(address=["h", "wss://[::1]"]).address == ["mqtt://h:1883", "wss://[::1]:443/mqtt"]


def test_profiles(tmp_path: Path) -> None:
    """FC-39: keys of session that a bridge has are those of its session, whose client id names them."""
    found = loaded(tmp_path, {"session": {"max_mqueue_len": 7}}, {}).config
    assert list(found.profiles) == ["$bridge/b0"]
    assert found.profiles["$bridge/b0"] == found.session.model_copy(update={"max_mqueue_len": 7})
    assert [each.local_id for each in found.bridges] == ["$bridge/b0", "$bridge/b1"]


def test_same_name(tmp_path: Path) -> None:
    """Two bridges with one name are refused, by the loader and in Python code."""
    told = "found 'x', which is the name of bridges[0] too: give each its own name"
    assert problems(tmp_path, {"name": "x"}, {"name": None}, {"name": "x"})["bridges[2].name"] == told
    with pytest.raises(ValidationError, match=r"bridges\[1\]\.name: found 'b'"):
        config.Config(bridges=[bridge(), bridge()])


def test_files(tmp_path: Path) -> None:
    """Files that are missing or of the wrong kind are named with their keys."""
    (tmp_path / "ca").write_text(CERTIFICATE)
    authorities, gone = str(tmp_path / "ca"), str(tmp_path / "gone")
    keys = {"username": "u", "password_file": gone, "tls": {"cafile": gone, "certfile": authorities}}
    assert problems(tmp_path, {}, {"address": "mqtts://h"} | keys) == {
        "bridges[1].password_file": f"there is no file {gone!r}",
        "bridges[1].tls.cafile": f"there is no file {gone!r}",
        "bridges[1].tls.certfile": f"{authorities!r} holds no private key in PEM form, and there is no keyfile",
    }


def test_password_in_place_of_its_file(tmp_path: Path) -> None:
    """A password that somebody writes as password_file is not in the message."""
    assert "secret-word" not in str(problems(tmp_path, {"password_file": "secret-word"}))


@pytest.mark.parametrize(("verify", "warnings"), [(True, 0), (False, 1)])
def test_check_warns(tmp_path: Path, verify: bool, warnings: int) -> None:
    """`config check` warns of a bridge that takes any certificate."""
    file = tmp_path / "sluice.yaml"
    tls = f"tls: {{verify: {str(verify).lower()}}}"
    file.write_text(f"bridges: [{{name: b, address: 'mqtts://h', topics: [{{filter: a}}], {tls}}}]\n")
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert result.exit_code == 0
    assert result.stderr.count("warning: bridges[0].tls.verify: ") == warnings


def test_shown(tmp_path: Path) -> None:
    """What `config show` prints can be loaded again, and has no value of an address's query."""
    (tmp_path / "password").write_text("secret-word\n")
    keys = {"username": "u", "password_file": tmp_path / "password", "tls": {"verify": False}, "proto_ver": 5}
    more = {"will": {"topic": "a", "retain": True}, "topics": [{"filter": "a", "qos": 0}, {"filter": "b"}]}
    found = loaded(tmp_path, {"address": ["h", "wss://h/mqtt"]} | keys | more, {"session": {"max_inflight": 3}})
    file = tmp_path / "sluice.yaml"
    file.write_text(render(found))
    assert "secret-word" not in file.read_text()
    assert config.load(file, {}).config == found.config
    assert "wss://h:443/mqtt?token=***" in render(loaded(tmp_path, {"address": "wss://h?token=secret-word"}))


def test_reload(tmp_path: Path) -> None:
    """A reload changes bridges at once, and says which key of which topic has changed, and where it is from."""
    old = loaded(tmp_path, {"topics": [{"filter": "a"}, {"filter": "b"}]})
    new = loaded(tmp_path, {"topics": [{"filter": "a"}, {"filter": "b", "qos": 1}], "address": ["h", "i"]}, {})
    plan = plan_reload(new.config, old.config)
    assert (plan.config, plan.restart) == (new.config, {})
    assert {"bridges[0].address[1]", "bridges[0].topics[1].qos", "bridges[1].name"} < set(plan.changed)
    sources = sources_after(plan, new, old.sources)
    assert sources["bridges[0].topics[1].qos"] == "--bridges"
    assert sources["bridges[1].keepalive"] == "default"
    assert plan_reload(old.config, new.config).config == old.config


def test_messages(tmp_path: Path) -> None:
    """A wrong address is quoted; a list that has no default has to have something in it."""
    told = problems(tmp_path, {"address": "tcp://h", "topics": []})
    assert told["bridges[0].address"].startswith("found 'tcp://h': write mqtt://host:port")
    assert told["bridges[0].topics"] == "found a list: write at least one"


def test_suggestion(tmp_path: Path) -> None:
    """Mosquitto's name of a key leads to ours."""
    assert problems(tmp_path, {"remote_username": "u"}) == {
        dotted(("bridges", 0, "remote_username")): "unknown key; did you mean 'username'?"
    }
