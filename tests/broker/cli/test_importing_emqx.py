"""`sluice import emqx`: what it takes over, what it says about the rest, and what it never does."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import config
from broker.cli.main import app
from tests.support.certificates import make_certificates
from tests.support.emqx_configs import SOUND, TOKENS, WRONG

pytestmark = pytest.mark.once
pytest.importorskip("pyhocon", reason="needs the extra `emqx`")

SHIPPED_RULES = """
%% A comment.
{allow, {username, {re, "^dashboard$"}}, subscribe, ["$SYS/#"]}.
{allow, {ipaddr, "127.0.0.1"}, all, ["$SYS/#", "#"]}.
{deny, all, subscribe, ["$SYS/#", {eq, "#"}]}.
{allow, all}.
"""


def import_from(*arguments: object) -> tuple[int, str, str]:
    """Run `sluice import emqx` in this process: status, standard output, standard error."""
    result = CliRunner().invoke(app, ["import", "emqx", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def imported(tmp_path: Path, text: str, rules: str = SHIPPED_RULES) -> dict[str, Any]:
    """The result of importing this text, which has to be valid, as YAML reads it."""
    (tmp_path / "acl.conf").write_text(rules)
    (tmp_path / "emqx.conf").write_text(text)
    output = tmp_path / "sluice.yaml"
    import_from(tmp_path, "--output", output, "--force")
    assert config.check(output) == []
    loaded = yaml.safe_load(output.read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_members_by_client_id(tmp_path: Path) -> None:
    """FC-33: members that get messages by the publisher's client id become a keyed group."""
    found = imported(tmp_path, "mqtt.shared_subscription_strategy = hash_clientid")
    assert found["session"] == {"mqueue_fairness": "publisher", "group_order": "key", "max_mqueue_bytes": "infinity"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that configurations name."""
    made = tmp_path_factory.mktemp("emqx")
    make_certificates(made)
    return made


@pytest.mark.parametrize("about", SOUND)
def test_own_configurations(folder: Path, tmp_path: Path, about: str) -> None:
    """What EMQX's own examples configure is imported whole and valid, without secrets, and nothing is passed over."""
    from config import emqx

    (tmp_path / "acl.conf").write_text(SHIPPED_RULES)
    file, output = tmp_path / "emqx.conf", tmp_path / "sluice.yaml"
    file.write_text(SOUND[about].replace("FOLDER", str(folder)))
    status, _, err = import_from(file, "--output", output)
    assert (status, err) == (0, "")
    assert config.check(output) == []
    text = output.read_text()
    settings = emqx.read([file])
    assert settings or not SOUND[about] or about == "no authentication"
    of_features = [each for each in settings if f" more under {each.path[0]})" in text]
    assert [each.name for each in settings if each not in of_features and f"{file} {each.name} = " not in text] == []
    assert "secret-word" not in text
    assert "emqxsecretcookie" not in text


@pytest.mark.parametrize("setting", WRONG)
def test_wrong_settings(tmp_path: Path, setting: str) -> None:
    """A setting that cannot be taken over is named with what is wrong; the others are taken over."""
    file, output = tmp_path / "emqx.conf", tmp_path / "sluice.yaml"
    file.write_text(f"mqtt.max_mqueue_len = 7\n{setting}\n")
    (tmp_path / "acl.conf").write_text(SHIPPED_RULES)
    status, _, err = import_from(file, "-o", output)
    told = err.splitlines()
    assert (status, len(told), told[0].startswith(f"{file} "), told[0].isprintable()) == (1, 1, True, True)
    assert WRONG[setting] in told[0]
    assert config.check(output) == []
    assert yaml.safe_load(output.read_text())["session"]["max_mqueue_len"] == 7
    assert "secret-word" not in output.read_text() + err


def test_values(folder: Path, tmp_path: Path) -> None:
    """Durations, sizes, rates and counts of EMQX have the same meaning in the result."""
    text = (
        'mqtt { max_packet_size = 2MB, retry_interval = "1m30s", idle_timeout = 500ms, max_topic_levels = 1000,\n'
        "server_keepalive = 60, max_mqueue_len = infinity, await_rel_timeout = infinity, max_subscriptions = 5 }\n"
        'listeners.tcp.default { max_connections = 3, messages_rate = "100/10s", bytes_rate = "1MB/s" }\n'
        "listeners.ws.default.max_connections = 4"
    )
    imported(tmp_path, text)
    loaded = config.load(tmp_path / "sluice.yaml", environ={}).config
    assert (loaded.mqtt.max_packet_size, loaded.mqtt.connect_timeout, loaded.mqtt.max_topic_levels) == (2**21, 0.5, 256)
    assert (loaded.mqtt.server_keep_alive, loaded.mqtt.max_connections) == (60, 7)
    assert (loaded.session.retry_interval, loaded.session.producer_max_rate) == (90, 0)
    assert {name: own.producer_max_rate for name, own in loaded.profiles.items()} == {"tcp-default": 10}
    assert (loaded.quotas[0].max_subscriptions, loaded.quotas[0].producer_max_bytes) == (5, 2**20)


def test_default_listeners(tmp_path: Path) -> None:
    """Without listeners in the file those of EMQX are opened, but none with the certificate that everybody has."""
    result = imported(tmp_path, "")
    assert [each["bind"] for each in result["listeners"]] == ["0.0.0.0:1883", "0.0.0.0:8083"]
    assert result["allow_anonymous"] is True
    text = (tmp_path / "sluice.yaml").read_text()
    assert "EMQX listens on 8883 (ssl) too by default" in text


def test_client_certificates(folder: Path, tmp_path: Path) -> None:
    """Clients whose certificate EMQX asks for are asked by Sluice, and their names are those of the certificate."""
    (listener, *_) = (
        each
        for each in imported(tmp_path, SOUND["certificates"].replace("FOLDER", str(folder)))["listeners"]
        if "tls" in each
    )
    tls = listener["tls"]
    assert (tls["require_client_certificate"], tls["username"], tls["cafile"]) == (True, "{cn}", f"{folder}/ca.pem")


def test_tokens(tmp_path: Path) -> None:
    """A set of keys at an address verifies tokens, with the claims that EMQX looks at."""
    jwt = imported(tmp_path, TOKENS)["authentication"]["jwt"]
    assert (jwt["jwks_url"], jwt["refresh"], jwt["sent_as"]) == ("https://login.example.com/keys", "300s", "password")
    assert (jwt["issuer"], jwt["audience"], jwt["user_claim"]) == ("https://login.example.com", "mqtt", "name")


def test_nobody_more_is_let_in(tmp_path: Path) -> None:
    """Users in EMQX's database cannot be read: nobody is let in until users are added."""
    result = imported(tmp_path, "authentication { mechanism = password_based, backend = built_in_database }")
    users = tmp_path / "sluice-users"
    assert (users.read_text(), users.stat().st_mode & 0o777) == ("", 0o600)
    assert (result["allow_anonymous"], result["authentication"]["password_file"]) == (False, str(users))


SOURCE = 'authorization { no_match = deny, sources = [{ type = file, path = "acl.conf" }] }'.replace(
    "acl.conf", "${EMQX_ETC_DIR}/acl.conf"
)


def test_shipped_rules(tmp_path: Path) -> None:
    """The rules that EMQX ships become ours, in their order."""
    assert imported(tmp_path, SOURCE)["authorization"]["rules"] == [
        {"permit": "allow", "topics": ["$SYS/#"], "action": "subscribe", "users": ["dashboard"]},
        {"permit": "allow", "topics": ["$SYS/#", "#"], "addresses": ["127.0.0.1"]},
        {"permit": "deny", "topics": ["$SYS/#"], "action": "subscribe"},
        {"permit": "allow", "topics": ["#", "$SYS/#"]},
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('{allow, {user, "a*"}, publish, "x/${clientid}"}.', {"users": ["a[*]"], "topics": ["x/{client_id}"]}),
        (
            '{allow, {clientid, "c"}, {publish, [{qos, [0, 1]}, {retain, false}]}, ["x"]}.',
            {"qos": [0, 1], "retain": False},
        ),
        (
            '{deny, {\'and\', [{user, "a"}, {ipaddrs, ["10.0.0.0/8", "::1"]}]}, all, ["x"]}.',
            {"users": ["a"], "addresses": ["10.0.0.0/8", "::1"]},
        ),
        ('{deny, {username, {re, "^x.*"}}, publish, ["a/#"]}.', {"permit": "deny", "topics": ["a/#"]}),
        ('{deny, {client_attr, "x", "y"}, all, ["a/#"]}.', {"permit": "deny", "topics": ["a/#"]}),
        ('{allow, {username, {re, "^x.*"}}, publish, ["a/#"]}.', None),
        ('{allow, {user, "a"}, publish, ["${client_attrs.group}/#"]}.', None),
        ('{allow, all, subscribe, [{eq, "a/+"}]}.', None),
    ],
)
def test_rules(tmp_path: Path, rule: str, expected: dict[str, Any] | None) -> None:
    """Conditions become those of our rules; what ours cannot say allows less and denies more, and is told."""
    users = "authentication = [{ mechanism = password_based, backend = built_in_database }]"
    made = imported(tmp_path, f"{SOURCE}\n{users}", rule)["authorization"].get("rules", [None])[0]
    assert made == expected if expected is None else made.items() >= expected.items()
    if expected is None or ("users" not in made and "client_ids" not in made):
        assert rule.rstrip(".") in (tmp_path / "sluice.yaml").read_text()


@pytest.mark.parametrize(
    "rules",
    [
        "{allow, all",
        "{allow}.",
        "allow.",
        "{{{{",
        "[" * 5000,
        "{allow, all]}.",
        "\0\xff",
        '{allow, all, all, ["#"]} x.',
        "].",
    ],
)
def test_rules_that_are_none(tmp_path: Path, rules: str) -> None:
    """From an acl.conf that cannot be read nothing is allowed, and the mistake is told."""
    result = imported(tmp_path, SOURCE.replace("deny,", "allow,"), rules)
    assert (result["authorization"]["default"], "rules" in result["authorization"]) == ("deny", False)


def test_later_files_count(tmp_path: Path) -> None:
    """Of the files of a directory, and of those that are named, the setting of the last one counts."""
    (tmp_path / "cluster.hocon").write_text("mqtt { max_inflight = 5, max_mqueue_len = 6 }")
    session = imported(tmp_path, "mqtt.max_inflight = 7")["session"]
    assert session == {"max_inflight": 7, "max_mqueue_len": 6, "max_mqueue_bytes": "infinity"}


ZONES = """
mqtt.max_inflight = 16
zones.inside.mqtt { max_inflight = 128, max_mqueue_len = 10000, max_packet_size = 2MB, max_awaiting_rel = 1 }
zones.nowhere.mqtt.max_inflight = 1
listeners.tcp.inside { bind = 1884, zone = inside }
listeners.tcp.other { bind = 1885, zone = other, messages_rate = "5/s" }
"""


def test_zones(tmp_path: Path) -> None:
    """FC-39: what a zone says about windows and queues is the profile of its listeners; the rest is told."""
    listeners = {each["name"]: each.get("session") for each in imported(tmp_path, ZONES)["listeners"]}
    inside = {"max_inflight": 128, "max_mqueue_len": 10_000, "max_awaiting_rel": 1}
    assert listeners == {
        "tcp-default": None,
        "tcp-inside": inside,
        "tcp-other": {"producer_max_rate": 5},
        "ws-default": None,
    }
    told = "".join(import_from(tmp_path, "--output", tmp_path / "sluice.yaml", "--force")[1:])
    named = ("zones.inside.mqtt.max_packet_size", "zones.nowhere.mqtt.max_inflight", "listeners.tcp.other.zone")
    for beginning in named:
        assert f"{beginning} = " in told


def test_the_default_zone(tmp_path: Path) -> None:
    """FC-39: the zone `default` is that of listeners that name none."""
    made = imported(tmp_path, "zones.default.mqtt.max_inflight = 8\nlisteners.ws.default.zone = inside")
    assert [each.get("session") for each in made["listeners"]] == [{"max_inflight": 8}, None]


def test_a_mistake_in_a_zone(tmp_path: Path) -> None:
    """A value that EMQX would not take is told, and is not taken over."""
    made = imported(tmp_path, "zones.default.mqtt.max_inflight = 0")
    assert "session" not in made["listeners"][0]
    assert import_from(tmp_path, "--output", tmp_path / "sluice.yaml", "--force")[0] == 1

def test_never_overwrites(tmp_path: Path) -> None:
    """A file that exists stays as it is, unless --force is given."""
    file, output = tmp_path / "emqx.conf", tmp_path / "sluice.yaml"
    file.write_text("authorization.sources = []")
    output.write_text("precious")
    status, _, err = import_from(file, "-o", output)
    assert (status, output.read_text(), "--force" in err) == (2, "precious", True)
    assert import_from(file, "-o", output, "--force")[0] == 0


@pytest.mark.parametrize(
    "content", [b"\0\1", b"x" * 2_000_000, None, b"mqtt {", b"[1, 2]", b"a = ${nowhere}", b"\xff\xfe"]
)
def test_unreadable(tmp_path: Path, content: bytes | None) -> None:
    """What is no configuration at all is refused, with its name."""
    file = tmp_path / "emqx.conf"
    if content is not None:
        file.write_bytes(content)
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert (status, str(file) in err, len(err.splitlines())) == (2, True, 1)
    missing = tmp_path / "none"
    status, _, err = import_from(missing, "-o", tmp_path / "sluice.yaml")
    assert (status, err) == (2, f"sluice: {missing}: No such file or directory\n")


def test_includes(tmp_path: Path) -> None:
    """Nothing is fetched from the network, and a file that includes itself is named; other included files count."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        file = tmp_path / "emqx.conf"
        for address in ('url("http://127.0.0.1:PORT/x")', '"http://127.0.0.1:PORT/x"'):
            file.write_text(f"include {address}".replace("PORT", str(server.getsockname()[1])))
            status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
            assert (status, "nothing is fetched" in err, len(err.splitlines())) == (2, True, 1)
        with pytest.raises(BlockingIOError):
            server.accept()
    file.write_text('include "other.conf"\n')
    (tmp_path / "other.conf").write_text('include "emqx.conf"\n')
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert (status, f"{tmp_path}/other.conf includes {file}" in err) == (2, True)
    (tmp_path / "other.conf").write_text("mqtt.max_inflight = 7\n")
    assert imported(tmp_path, 'include "other.conf"\ninclude "other.conf"\n')["session"]["max_inflight"] == 7


def test_nothing_to_serve(tmp_path: Path) -> None:
    """If all listeners are off, or one has an address that is none, nothing is written, and that is said."""
    file = tmp_path / "emqx.conf"
    file.write_text("listeners { tcp.default.enable = false, ws.default.enable = false }")
    assert "all listeners are off" in import_from(file, "-o", tmp_path / "sluice.yaml")[2]
    file.write_text('listeners.tcp.default.bind = "nowhere"')
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert (status, "listeners.tcp.default: found 'nowhere'" in err) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["emqx.conf"]


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library that reads HOCON the command says how to get it."""
    (tmp_path / "emqx.conf").write_text("")
    monkeypatch.setitem(sys.modules, "pyhocon", None)
    status, _, err = import_from(tmp_path, "-o", tmp_path / "sluice.yaml")
    assert (status, "pip install 'sluice-mqtt[emqx]'" in err) == (2, True)
