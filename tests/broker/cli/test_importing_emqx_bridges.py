"""`sluice import emqx`: MQTT bridges, which are connectors with actions, sources and rules, or `bridges` of before."""

import math
from pathlib import Path
from typing import Any

import pytest

import config
from config import emqx
from config.bridge import Bridge
from tests.broker.cli.test_importing_emqx import folder, import_from  # noqa: F401 - a fixture

pytestmark = pytest.mark.once
pytest.importorskip("pyhocon", reason="needs the extra `emqx`")

COPY = 'qos = "${qos}", retain = "${retain}", payload = "${payload}"'
OLD = (
    'bridges.mqtt.b { server = "h:1884", egress { local.topic = "a/#",\n'
    f'remote {{ topic = "${{topic}}", {COPY} }} }} }}\n'
)
RULE = 'rule_engine.rules.r { sql = "SELECT * FROM \\"a/+\\", \\"b\\"", actions = ["mqtt:b"] }'


class Imported:
    """What a configuration becomes."""

    def __init__(self, tmp_path: Path, text: str, rules: str = "{allow, all}.") -> None:
        """Import it; the result has to be valid."""
        self.file, output = tmp_path / "emqx.conf", tmp_path / "sluice.yaml"
        (tmp_path / "acl.conf").write_text(rules)
        self.file.write_text(text)
        self.status, self.out, self.err = import_from(tmp_path, "-o", output)
        self.text = output.read_text()
        self.config = config.load(output, environ={}).config
        settings = emqx.read([self.file])
        told = [each for each in settings if f"{self.file} {each.name} = " in self.text]
        told += [each for each in settings if f" more under {each.path[0]})" in self.text]
        self.passed_over = [each.name for each in settings if each not in told]

    @property
    def topics(self) -> list[tuple[str, str, str, int]]:
        """Of each topic of each bridge the name here, the name there, the direction and the QoS."""
        topics = [each for bridge in self.config.bridges for each in bridge.topics]
        return [(each.local_filter, each.remote_filter, each.direction, each.qos) for each in topics]


def through(action: str, sql: str = 'SELECT * FROM \\"a/#\\"', more: str = "") -> str:
    """A connector with one action, and a rule that leads to it."""
    return (
        f'connectors.mqtt.c.server = "h"\nactions.mqtt.x {{ connector = c, parameters {{ {action} }} }}\n'
        f'rule_engine.rules.r {{ sql = "{sql}", actions = ["mqtt:x"{more}] }}\n'
    )


def ingress(remote: str, local: str) -> str:
    """A bridge of before by which messages come in."""
    return f'bridges.mqtt.b {{ server = "h", ingress {{ remote {{ {remote} }}, local {{ {local} }} }} }}\n'


def into(source: str, republish: str, of: str = "$sources/mqtt:x") -> str:
    """A connector with one source, and a rule that publishes what comes."""
    return (
        f'connectors.mqtt.c.server = "h"\nsources.mqtt.x {{ connector = c, parameters {{ {source} }} }}\n'
        f'rule_engine.rules.r {{ sql = "SELECT * FROM \\"{of}\\"", actions = [{{ function = republish,\n'
        f"args {{ {republish} }} }}] }}\n"
    )


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        (OLD, [("a/#", "a/#", "out", 2)]),
        (OLD.replace('"${topic}"', '"up/${topic}"'), [("a/#", "up/a/#", "out", 2)]),
        (OLD.replace("a/#", "a").replace('"${topic}"', '"x/y"'), [("a", "x/y", "out", 2)]),
        (OLD.replace('"${qos}"', "0"), [("a/#", "a/#", "out", 0)]),
        (
            ingress('topic = "a/#"', f'topic = "d/${{topic}}", {COPY}'),
            [("d/a/#", "a/#", "in", 1)],
        ),
        (
            ingress('topic = "$share/g/a", qos = 2', 'topic = "l", qos = 1, payload = "${payload}"'),
            [("l", "a", "in", 1)],
        ),
        (
            OLD.replace('local.topic = "a/#",', "") + RULE,
            [("a/+", "a/+", "out", 2), ("b", "b", "out", 2)],
        ),
        (through(f'topic = "up/${{topic}}", {COPY}'), [("a/#", "up/a/#", "out", 2)]),
        (through(f'topic = "${{topic}}", {COPY}', 'select *\\nfrom \\n \\"a/#\\";'), [("a/#", "a/#", "out", 2)]),
        (into('topic = "a/#", qos = 2', 'topic = "d/${topic}"'), [("d/a/#", "a/#", "in", 2)]),
        (into('topic = "a/#"', f'topic = "${{topic}}", {COPY}', "$bridges/mqtt:x"), [("a/#", "a/#", "in", 1)]),
        (
            into('topic = "a/#", local { topic = "l/${topic}", payload = "${payload}" }', "", "other"),
            [("l/a/#", "a/#", "in", 1)],
        ),
    ],
)
def test_topics(tmp_path: Path, text: str, topics: list[tuple[str, str, str, int]]) -> None:
    """What copies messages from topics to topics becomes topics of a bridge, and each setting is accounted for."""
    found = Imported(tmp_path, text)
    assert (found.status, found.err, found.topics, found.passed_over) == (0, "", topics, [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (through('topic = "t/${clientid}", payload = "${payload}"'), "taken over is ${topic}"),
        (through('topic = "${topic}/x", payload = "${payload}"'), "taken over is ${topic}"),
        (through('topic = "one", payload = "${payload}"'), "taken over is ${topic}"),
        (through('topic = "${topic}"'), "a bridge sends payloads as they are"),
        (through('topic = "${topic}", payload = "{\\"v\\": ${payload}}"'), "a bridge sends payloads as they are"),
        (through('topic = "${topic}", payload = "${payload}", qos = "${flags.qos}"'), "only a number or ${qos}"),
        (through(f'topic = "${{topic}}", {COPY}', 'SELECT payload FROM \\"a\\"'), "a bridge has no rule engine"),
        (
            through(f'topic = "${{topic}}", {COPY}', 'SELECT * FROM \\"a\\" WHERE qos = 1'),
            "a bridge has no rule engine",
        ),
        (OLD.replace('local.topic = "a/#",', ""), "no rule that is taken over leads to it"),
        (into('topic = "a"', 'topic = "${topic}", payload = "${payload.x}"'), "a bridge sends payloads as they are"),
        ('connectors.mqtt.c.server = "h"', "no topic goes over it that is taken over"),
        ('connectors.mqtt.c.server = "h"\nsources.mqtt.x { connector = c, parameters.topic = "a" }', "no rule"),
        (into('topic = "$SYS/#"', 'topic = "${topic}"'), "only the broker publishes under $SYS"),
        (OLD + "bridges.mqtt.b.egress.pool_size = 8\nbridges.mqtt.b.pool_size = 4", "a bridge is one connection"),
        (OLD + "bridges.mqtt.b.resource_opts.max_buffer_bytes = 1MB", "in the mqueue of the bridge (session)"),
    ],
)
def test_what_is_left_out(tmp_path: Path, text: str, told: str) -> None:
    """What does more than to copy messages is printed with the reason; each setting is accounted for."""
    found = Imported(tmp_path, text)
    assert (found.status, told in found.out, found.passed_over) == (0, True, [])
    assert len(found.config.bridges) == text.startswith(OLD)


def test_other_rules(tmp_path: Path) -> None:
    """A rule that is not about bridges is told as before, once for all."""
    found = Imported(
        tmp_path, OLD + 'rule_engine.rules.r { sql = "SELECT 1 FROM \\"a\\"", actions = [{ function = console }] }'
    )
    assert "what it does is done by a client of the broker (and 1 more under rule_engine)" in found.text
    assert len(found.config.bridges) == 1


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (
            "",
            {
                "proto_ver": "3.1.1",
                "keepalive": 300.0,
                "clean_start": True,
                "client_id": None,
                "address": ["mqtt://h:1884"],
            },
        ),
        ("proto_ver = v5", {"proto_ver": "5", "clean_start": True}),
        ("proto_ver = v5, clean_start = false", {"clean_start": False, "session_expiry_interval": 0.0}),
        ("proto_ver = v4, clean_start = false", {"clean_start": False, "session_expiry_interval": math.inf}),
        ("proto_ver = v3, bridge_mode = true", {"proto_ver": "3.1.1"}),
        ("keepalive = 1m30s", {"keepalive": 90.0}),
        ("keepalive = 0s", {"keepalive": 65_535.0}),
        ("clientid_prefix = site", {"client_id": "site-b"}),
        (
            'server = "h, [::1]:1885, 10.0.0.1"',
            {"address": ["mqtt://h:1883", "mqtt://[::1]:1885", "mqtt://10.0.0.1:1883"]},
        ),
        ("enable = false", {"enabled": False}),
        ('username = u, password = "file:///etc/hostname"', {"username": "u", "password_file": Path("/etc/hostname")}),
        ('username = "", password = ""', {"username": None, "password_file": None}),
    ],
)
def test_connections(tmp_path: Path, text: str, keys: dict[str, Any]) -> None:
    """The settings of a connection become the keys that do the same, with EMQX's defaults."""
    found = Imported(tmp_path, f"{OLD}bridges.mqtt.b {{ {text} }}")
    (bridge,) = found.config.bridges
    assert {key: getattr(bridge, key) for key in keys} == keys
    assert (found.status, found.passed_over) == (0, [])


def test_window(tmp_path: Path) -> None:
    """The window of a connector is that of its bridge alone."""
    found = Imported(tmp_path, f"{OLD}bridges.mqtt.b.max_inflight = 7\nmqtt.max_inflight = 9").config
    assert (found.profiles["$bridge/b"].max_inflight, found.session.max_inflight) == (7, 9)


def with_tls(tmp_path: Path, folder: Path, text: str) -> tuple[Bridge, Imported]:  # noqa: F811
    """A bridge with these settings of TLS."""
    found = Imported(tmp_path, f"{OLD}bridges.mqtt.b.ssl {{ enable = true, {text} }}".replace("FOLDER", str(folder)))
    (bridge,) = found.config.bridges
    return bridge, found


def test_tls(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    """Certificates, the name, and the version are taken over; EMQX verifies nothing unless it is told."""
    text = 'verify = verify_peer, cacertfile = "FOLDER/ca.pem", certfile = "FOLDER/server.pem",\n'
    text += 'keyfile = "FOLDER/server.key", server_name_indication = "n", versions = ["tlsv1.3"]'
    bridge, found = with_tls(tmp_path, folder, text)
    assert (bridge.address, found.status, found.passed_over) == (["mqtts://h:1884"], 0, [])
    assert bridge.tls is not None
    assert bridge.tls.model_dump() == {
        "cafile": folder / "ca.pem",
        "certfile": folder / "server.pem",
        "keyfile": folder / "server.key",
        "server_name": "n",
        "verify": True,
        "alpn": [],
        "minimum_version": "1.3",
        "ciphers": None,
    }


@pytest.mark.parametrize("text", ["", "verify = verify_none", "server_name_indication = disable"])
def test_tls_without_authorities(folder: Path, tmp_path: Path, text: str) -> None:  # noqa: F811
    """Where EMQX verifies no certificate, the bridge does not either."""
    bridge, found = with_tls(tmp_path, folder, text)
    assert bridge.tls is not None
    assert (bridge.tls.verify, found.status) == (False, 0)


def test_tls_without_the_name(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    """A certificate whose name EMQX does not look at is verified with its name, which is printed."""
    bridge, found = with_tls(tmp_path, folder, "verify = verify_peer, server_name_indication = disable")
    assert bridge.tls is not None
    assert (bridge.tls.verify, found.status, "write it as tls.server_name" in found.err) == (True, 1, True)


def test_password(tmp_path: Path) -> None:
    """A password is in a file of its own, and nowhere else."""
    found = Imported(tmp_path, f"{OLD}bridges.mqtt.b {{ username = u, password = secret-word }}")
    file = tmp_path / "bridge-b.password"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("secret-word\n", 0o600)
    assert found.config.bridges[0].password_file == file
    assert "secret-word" not in found.text + found.out + found.err


def test_hidden_password(tmp_path: Path) -> None:
    """Stars, as EMQX shows passwords, are no password."""
    found = Imported(tmp_path, f'{OLD}bridges.mqtt.b {{ username = u, password = "******" }}')
    assert (found.status, "write it into a file" in found.err, found.config.bridges[0].password_file) == (1, True, None)


@pytest.mark.parametrize("text", ['server = "a..b"', "max_inflight = 70000", "keepalive = soon"])
def test_bridge_that_cannot_be(tmp_path: Path, text: str) -> None:
    """A bridge that ours cannot be is left out, and it is said why."""
    found = Imported(tmp_path, f"{OLD}bridges.mqtt.b {{ {text} }}")
    assert (found.status, "the bridge is left out: " in found.err, found.config.bridges) == (1, True, [])


def test_rules(tmp_path: Path) -> None:
    """EMQX's rules are not about its bridges: where there are some, a bridge may do what goes over it."""
    found = Imported(tmp_path, OLD, "{deny, all}.").config.authorization
    assert [(each.permit, each.action, each.topics, each.client_ids) for each in found.rules if each.client_ids] == [
        ("allow", "subscribe", ["a/#"], ["$bridge/b"])
    ]


def test_no_rules_behind_a_plugin(tmp_path: Path) -> None:
    """Where something decides that is not taken over, no rule allows a bridge anything."""
    found = Imported(tmp_path, f'{OLD}exhook.servers = [{{ name = mine, url = "http://127.0.0.1:1" }}]')
    assert [each for each in found.config.authorization.rules if each.client_ids] == []
    assert "write a rule that allows bridges their topics" in found.text
