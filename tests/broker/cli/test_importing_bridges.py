"""`sluice import mosquitto`: bridges (`connection`), with their passwords and the rules that they need."""

import platform
import re
from pathlib import Path
from typing import Any

import pytest

import config
from config.bridge import Bridge
from tests.broker.cli.test_importing import folder, import_from, passed_over  # noqa: F401 - a fixture
from tests.support.mosquitto_bridges import GUIDES

pytestmark = pytest.mark.once

LISTEN = "listener 1883 127.0.0.1\nallow_anonymous true\n"
LEAST = "connection b\naddress h\ntopic a out\n"
CLAIMED = 1
"""Exit status, as clients may claim the names that rules are about."""


def imported(tmp_path: Path, text: str, status: int = 0) -> config.Config:
    """What these lines become."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text(text)
    found, _, err = import_from(file, "-o", output)
    assert (found, bool(err)) == (status, bool(status)), err
    return config.load(output, environ={}).config


def one(tmp_path: Path, text: str, status: int = 0) -> Bridge:
    """The bridge that these lines, after those that each needs, become."""
    (bridge,) = imported(tmp_path, f"{LISTEN}{LEAST}{text}\n", status).bridges
    return bridge


@pytest.mark.parametrize("about", GUIDES)
def test_guides(folder: Path, tmp_path: Path, about: str) -> None:  # noqa: F811
    """What guides configure is imported, can be loaded, and has the same topics; each line is accounted for."""
    text, topics, password = GUIDES[about]
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text((LISTEN + text).replace("FOLDER", str(folder)))
    status, out, err = import_from(file, "-o", output)
    assert (status, err) == (0, "")
    assert passed_over(file, output) == []
    assert "secret-word" not in out
    (bridge,) = config.load(output, environ={}).config.bridges
    found = [(each.local_filter, each.remote_filter, each.direction, each.qos) for each in bridge.topics]
    assert (found, bridge.enabled) == (topics, True)
    assert bridge.proto_ver == ("5" if "mqttv50" in text else "3.1.1")
    assert bridge.remotes[0].tls == ("8883" in text)
    assert bridge.clean_start == ("cleansession true" in text)
    assert (bridge.password_file is not None) == password


def test_least(tmp_path: Path) -> None:
    """Without a line, a bridge does what Mosquitto does: MQTT 3.1.1, QoS 0, its client id, its state, its pauses."""
    client_id = f"{platform.node()}.b"
    assert one(tmp_path, "") == Bridge.model_validate(
        {
            "name": "b",
            "address": "mqtt://h:1883",
            "proto_ver": "3.1.1",
            "client_id": client_id,
            "reconnect_min": 5.0,
            "reconnect_max": 30.0,
            "topics": [{"filter": "a", "qos": 0}],
            "state_topic": f"$SYS/broker/connection/{client_id}/state",
        }
    )


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("bridge_protocol_version mqttv31", {"proto_ver": "3.1.1"}),
        ("bridge_protocol_version mqttv50", {"proto_ver": "5", "session_expiry_interval": 0.0}),
        (
            "bridge_protocol_version mqttv50\nbridge_session_expiry_interval 60",
            {"session_expiry_interval": 60.0},
        ),
        ("remote_clientid x", {"client_id": "x", "state_topic": "$SYS/broker/connection/x/state"}),
        ("notification_topic up", {"state_topic": "up"}),
        ("notification_topic up\nnotifications false", {"state_topic": None}),
        ("notifications_local_only true", {"state_topic": None}),
        ("local_username ann", {"user": "ann"}),
        ("keepalive_interval 1", {"keepalive": 5.0}),
        ("keepalive_interval 600", {"keepalive": 600.0}),
        ("restart_timeout 20", {"reconnect_min": 20.0, "reconnect_max": 20.0}),
        ("restart_timeout 0 7", {"reconnect_min": 1.0, "reconnect_max": 7.0}),
        ("restart_timeout 9999", {"reconnect_min": 3600.0, "reconnect_max": 3600.0}),
        ("restart_timeout 10 7200 60", {"reconnect_min": 10.0, "reconnect_max": 3600.0}),
        ("start_type once", {"start": "once"}),
        ("start_type lazy\nthreshold 0\nidle_timeout 0", {"start": "lazy", "lazy_threshold": 1, "lazy_idle": 1.0}),
        ("start_type lazy\ncleansession true", {"start": "lazy", "clean_start": False}),
        ("start_type lazy\ntopic x in", {"start": "automatic"}),
        ("cleansession true", {"clean_start": True}),
        ("cleansession true\nlocal_cleansession false", {"clean_start": False}),
        ("local_cleansession true", {"clean_start": False}),
        ("remote_password p", {"password_file": None}),
        ("bridge_insecure true\nbridge_tls_version tlsv1.3\nbridge_certfile c", {"tls": None}),
    ],
)
def test_options(tmp_path: Path, text: str, keys: dict[str, Any]) -> None:
    """Each option becomes the key that does the same; values that Mosquitto bounds are bounded."""
    bridge = one(tmp_path, text)
    assert {key: getattr(bridge, key) for key in keys} == keys
    assert passed_over(tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml") == []


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("h", ["mqtt://h:1883"]),
        ("h:1884 # the first", ["mqtt://h:1884"]),
        (
            "10.0.0.1  2001:db8::1:1884 [::1]:8883",
            ["mqtt://10.0.0.1:1883", "mqtt://[2001:db8::1]:1884", "mqtt://[::1]:8883"],
        ),
    ],
)
def test_addresses(tmp_path: Path, text: str, addresses: list[str]) -> None:
    """The port is what follows the last colon, else 1883."""
    (bridge,) = imported(tmp_path, f"{LISTEN}connection b\naddress {text}\ntopic a").bridges
    assert bridge.address == addresses


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("#", ("#", "#", "out", 0)),
        ("a IN", ("a", "a", "in", 0)),
        ("a both 2 # comment", ("a", "a", "both", 2)),
        ("a out #1", ("a", "a", "out", 0)),
        ("a out 1 l/", ("l/a", "a", "out", 1)),
        ('a out 1 "" r/', ("a", "r/a", "out", 1)),
        ("# in 1 l/ r/ # comment", ("l/#", "r/#", "in", 1)),
        ('"" both 1 l r', ("l", "r", "both", 1)),
        ('"a b/#" out 1 l/ r/', ("l/a b/#", "r/a b/#", "out", 1)),
    ],
)
def test_topics(tmp_path: Path, text: str, topic: tuple[str, str, str, int]) -> None:
    """A line `topic` is read as Mosquitto reads it, with its defaults and comments."""
    (bridge,) = imported(tmp_path, f"{LISTEN}connection b\naddress h\ntopic {text}").bridges
    (found,) = bridge.topics
    assert (found.local_filter, found.remote_filter, found.direction, found.qos) == topic


def test_lazy_keeps_qos_0(tmp_path: Path) -> None:
    """Mosquitto queues QoS 0 for a lazy bridge, and for no other client that is away."""
    text = f"{LISTEN}{LEAST}start_type lazy\n"
    found = imported(tmp_path, text)
    assert (found.profiles["$bridge/b"].mqueue_store_qos0, found.session.mqueue_store_qos0) == (True, False)


@pytest.mark.parametrize(
    ("text", "told", "enabled"),
    [
        ("bridge_identity i\nbridge_psk deadbeef", ["bridge_identity", "bridge_psk"], False),
        ("bridge_capath FOLDER", ["bridge_capath"], False),
        ("bridge_cafile FOLDER/ca.pem\nbridge_capath FOLDER", ["bridge_capath"], True),
        ("bridge_cafile FOLDER/ca.pem\nbridge_require_ocsp true", ["bridge_require_ocsp"], False),
        ("bridge_cafile FOLDER/ca.pem\nbridge_insecure true", ["bridge_insecure"], True),
        ("bridge_tls_use_os_certs true\nbridge_cafile FOLDER/ca.pem", ["bridge_tls_use_os_certs"], True),
        ("topic $SYS/# in", ["topic"], True),
        ("topic $share/g/x in", ["topic"], True),
    ],
)
def test_what_needs_a_look(folder: Path, tmp_path: Path, text: str, told: list[str], enabled: bool) -> None:  # noqa: F811
    """What the result does not do is printed; a bridge that would trust more than Mosquitto's is not enabled."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text(f"{LISTEN}{LEAST}{text}\n".replace("FOLDER", str(folder)))
    status, _, err = import_from(file, "-o", output)
    assert status == 1
    assert re.findall(rf"^ *{file}:[0-9]+ ([a-z0-9_]+)", err, re.MULTILINE) == told
    assert passed_over(file, output) == []
    (bridge,) = config.load(output, environ={}).config.bridges
    assert (bridge.enabled, len(bridge.topics)) == (enabled, 1)
    assert bridge.tls is None or bridge.tls.verify


def test_tls(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    """TLS is taken over with its files, version, ciphers and ALPN; each address has it."""
    text = "bridge_cafile FOLDER/ca.pem\nbridge_certfile FOLDER/server.pem\nbridge_keyfile FOLDER/server.key\n"
    text += "bridge_alpn mqtt\nbridge_ciphers ECDHE+AESGCM\nbridge_tls_version tlsv1.2\nbridge_ciphers_tls1.3 X"
    bridge = one(tmp_path, text.replace("FOLDER", str(folder)))
    assert bridge.tls is not None
    assert bridge.tls.model_dump() == {
        "cafile": folder / "ca.pem",
        "certfile": folder / "server.pem",
        "keyfile": folder / "server.key",
        "server_name": None,
        "verify": True,
        "alpn": ["mqtt"],
        "minimum_version": "1.2",
        "ciphers": "ECDHE+AESGCM",
    }
    assert bridge.address == ["mqtts://h:1883"]


@pytest.mark.parametrize("ciphers", ["RC4", "ECDHE+AESGCM\nbridge_tls_version tlsv1.3"])
def test_ciphers(folder: Path, tmp_path: Path, ciphers: str) -> None:  # noqa: F811
    """Ciphers that are no protection, or would not be used, are left out."""
    bridge = one(tmp_path, f"bridge_cafile {folder}/ca.pem\nbridge_ciphers {ciphers}")
    assert bridge.tls is not None
    assert bridge.tls.ciphers is None


def test_password(tmp_path: Path) -> None:
    """A password is in a file of its own, which only its owner can read, and which is printed without it."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text(f"{LISTEN}connection a b\naddress h\ntopic x\nusername u\npassword pass word ü\n")
    status, out, err = import_from(file, "-o", output)
    password = tmp_path / "bridge-a.password"
    assert (status, err, password.read_text()) == (0, "", "pass word ü\n")
    assert password.stat().st_mode & 0o777 == 0o600
    assert f"{password} is written, with a password" in out
    assert "pass word" not in out + output.read_text()
    (bridge,) = config.load(output, environ={}).config.bridges
    assert (bridge.username, bridge.password_file) == ("u", password)


def test_password_that_is_there(tmp_path: Path) -> None:
    """A file of a password is never replaced: one with another is a mistake, and nothing is written."""
    file, output, password = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml", tmp_path / "bridge-b.password"
    file.write_text(f"{LISTEN}{LEAST}remote_username u\nremote_password new\n")
    password.write_text("old\n")
    status, _, err = import_from(file, "-o", output)
    assert (status, f"{password} exists, and has another password" in err, output.exists()) == (2, True, False)
    password.write_text("new\n")
    assert import_from(file, "-o", output)[0] == 0
    assert password.read_text() == "new\n"


def test_no_password_without_a_result(tmp_path: Path) -> None:
    """If nothing is written because of a mistake, no password is."""
    file = tmp_path / "mosquitto.conf"
    file.write_text(f"{LISTEN}listener 1883 127.0.0.1\n{LEAST}remote_username u\nremote_password p\n")
    assert import_from(file, "-o", tmp_path / "sluice.yaml")[0] == 2
    assert [each.name for each in tmp_path.iterdir()] == ["mosquitto.conf"]


def test_rules(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    """Mosquitto's rules are not about its bridges: where there are some, a bridge may do what goes over it, no more."""
    text = f"{LISTEN}acl_file {folder}/tight\n{LEAST}topic b/# both 1 l/ r/\ntopic c in\n"
    rules = imported(tmp_path, text, CLAIMED).authorization.rules
    told = [(rule.permit, rule.action, rule.topics, rule.client_ids) for rule in rules if rule.client_ids]
    assert told == [
        ("allow", "subscribe", ["a", "l/b/#"], ["$bridge/b"]),
        ("allow", "publish", ["l/b/#", "c"], ["$bridge/b"]),
    ]


def test_rules_about_braces(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    """A topic with braces would be another one in a rule: it is left out of the rule, and the result says so."""
    text = f"{LISTEN}acl_file {folder}/tight\n{LEAST}topic {{username}}/# out\n"
    assert imported(tmp_path, text, CLAIMED).authorization.rules[0].topics == ["a"]
    assert "allow what goes over b by a rule with wildcards" in (tmp_path / "sluice.yaml").read_text()


def test_no_rules(tmp_path: Path) -> None:
    """Where no rule forbids anything, none is written for bridges."""
    assert imported(tmp_path, LISTEN + LEAST).authorization.rules == []


def test_several(tmp_path: Path) -> None:
    """Each `connection` begins a bridge, whose lines may also come after a listener; names become valid ones."""
    text = "connection b\naddress h\nconnection b/ü\naddress i\nlistener 1884 127.0.0.1\ntopic x\nconnection ü\n"
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "more.conf").write_text("connection b-\naddress j\ntopic z")
    text = text.replace("address h", "address h\ntopic w") + "address k\ntopic y\ninclude_dir conf.d\n"
    bridges = imported(tmp_path, LISTEN + text).bridges
    assert [(each.name, each.remotes[0].host, each.topics[0].filter) for each in bridges] == [
        ("b", "h", "w"),
        ("b--", "i", "x"),
        ("bridge", "k", "y"),
        ("b-", "j", "z"),
    ]
    assert bridges[1].client_id == f"{platform.node()}.b/ü"


def test_bridge_that_cannot_be(tmp_path: Path) -> None:
    """A bridge that ours cannot be is left out, and it is said why; the rest is taken over."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text(f"{LISTEN}{LEAST}connection c\naddress a..b\ntopic x\n")
    status, _, err = import_from(file, "-o", output)
    assert (status, f"{file}:6 connection c: the bridge is left out: address: found 'mqtt://a..b:1883'" in err) == (
        1,
        True,
    )
    assert [each.name for each in config.load(output, environ={}).config.bridges] == ["b"]
    assert passed_over(file, output) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("connection b\ntopic a", "connection b: it needs a line `address HOST:PORT` below it"),
        ("connection b\naddress h", "connection b: it needs a line `topic PATTERN` below it"),
        (f"{LEAST}connection b\naddress h\ntopic a", "there is a connection 'b' already"),
        (f"{LEAST}address i", "Mosquitto takes it once for a bridge: it is in line 4 too"),
        (f"{LEAST}username u\nremote_username v", "Mosquitto takes it once for a bridge: it is in line 6 too"),
        (f"{LEAST}bridge_colour red", "Mosquitto has no such option of bridges"),
        (f"{LEAST}topic", "there is no value"),
        (f"{LEAST}topic a up", "write out, in or both"),
        (f"{LEAST}topic a out 3", "write a QoS"),
        (f"{LEAST}topic a out -1", "write a QoS"),
        (f"{LEAST}topic a out 0 +/ b/", "write it without + and #"),
        (f"{LEAST}topic # out 0 a b/", "found 'a#'"),
        (f'{LEAST}topic "" out 0 a', "both prefixes are topics"),
        (f"{LEAST}start_type manual", "automatic or lazy or once"),
        (f"{LEAST}restart_timeout 10 5", "found 5, less than 10"),
        (f"{LEAST}restart_timeout 10 # seconds", "found 0, less than 10"),
        (f"{LEAST}keepalive_interval 65536", "at most 65535"),
        (f"{LEAST}bridge_protocol_version mqttv5", "mqttv50"),
        (f"{LEAST}notifications no", "true or false"),
        (f"{LEAST}bridge_receive_maximum 0", "from 1"),
    ],
)
def test_wrong_lines(tmp_path: Path, text: str, told: str) -> None:
    """With a line that Mosquitto does not take nothing is written; it is named with what is wrong."""
    file = tmp_path / "mosquitto.conf"
    file.write_text(f"{LISTEN}{text}\n")
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert (status, told in err) == (2, True), err
    assert [each.name for each in tmp_path.iterdir()] == ["mosquitto.conf"]
