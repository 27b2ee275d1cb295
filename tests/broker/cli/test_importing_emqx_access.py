"""`sluice import emqx` and what decides about access: nobody may do more than before, and that is said."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import config
from broker.cli.main import app
from tests.support.certificates import make_certificates

pytestmark = pytest.mark.once
pytest.importorskip("pyhocon", reason="needs the extra `emqx`")

USERS = "authentication = [{ mechanism = password_based, backend = built_in_database }]\n"
EVERYTHING = ["#", "$SYS/#"]
BACKEND = '{allow, {username, "backend"}, all, ["#"]}. {deny, all}.'


def run(folder: Path, text: str, rules: str | None = "{allow, all}.") -> tuple[int, str, dict[str, Any]]:
    """Import emqx.conf, with acl.conf beside it: the status, standard error, and the result, which has to be valid."""
    if rules is not None:
        (folder / "acl.conf").write_text(rules)
    (folder / "emqx.conf").write_text(text)
    output = folder / "sluice.yaml"
    result = CliRunner().invoke(app, ["import", "emqx", str(folder), "--output", str(output)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if not output.exists():
        return result.exit_code, result.stderr, {}
    assert config.check(output) == []
    return result.exit_code, result.stderr, yaml.safe_load(output.read_text())


def test_default_source(tmp_path: Path) -> None:
    """acl.conf beside emqx.conf has the rules where emqx.conf names no sources."""
    status, _, made = run(tmp_path, USERS, BACKEND)
    assert status == 1  # because of the users
    assert made["authorization"] == {
        "default": "deny",
        "rules": [{"permit": "allow", "topics": ["#"], "users": ["backend"]}],
    }
    assert f'default: "deny"  # {tmp_path}/acl.conf:1 {{deny, all}}\n' in (tmp_path / "sluice.yaml").read_text()


def test_default_source_is_missing(tmp_path: Path) -> None:
    """Without that file nobody knows what it allows: nothing is allowed, and that is said."""
    status, told, made = run(tmp_path, "", None)
    assert (status, made["authorization"]) == (1, {"default": "deny"})
    assert f"{tmp_path}/acl.conf" in told


def test_no_sources(tmp_path: Path) -> None:
    """`authorization.sources = []` is none: acl.conf does not count, no_match does."""
    status, told, made = run(tmp_path, "authorization { sources = [], no_match = deny }", "{allow, all}.")
    assert (status, told, made["authorization"]) == (0, "", {"default": "deny"})


@pytest.mark.parametrize("kind", ["http", "postgresql", "built_in_database"])
def test_sources_that_are_not_taken_over(tmp_path: Path, kind: str) -> None:
    """What comes behind a source that may deny it is not allowed; what comes before it is."""
    other, own = f'{{ type = {kind}, url = "http://127.0.0.1" }}', '{ type = file, path = "etc/acl.conf" }'
    status, told, made = run(tmp_path, f"authorization.sources = [{other}, {own}]")
    assert (status, kind in told or "authorization.sources.1" in told) == (1, True)
    assert made["authorization"] == {"default": "deny"}
    (tmp_path / "sluice.yaml").unlink()
    rules = run(tmp_path, f"authorization.sources = [{own}, {other}]", '{allow, all, all, ["a"]}.')[2]
    assert rules["authorization"] == {"default": "deny", "rules": [{"permit": "allow", "topics": ["a"]}]}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('{deny, all, publish, ["a/b", "x/${client_attrs.g}/y"]}.', {"topics": ["a/b", "x/#"]}),
        ('{deny, all, publish, ["${cert_common_name}"]}.', {"topics": EVERYTHING}),
        ('{deny, all, publish, ["x${zone}/y"]}.', {"topics": EVERYTHING}),
        ("{deny, all, subscribe, all}.", {"topics": EVERYTHING, "action": "subscribe"}),
        ('{deny, all, all, ["all"]}.', {"topics": ["all"]}),
        ('{deny, all, publish, ["eq a/b", {eq, "c"}]}.', {"topics": ["a/b", "c"]}),
        ('{deny, all, subscribe, ["eq #", "a"]}.', {"topics": ["a"], "action": "subscribe"}),
        ('{deny, all, subscribe, ["eq a/#", {eq, "a/+"}]}.', {"topics": ["a/#", "a/+"], "action": "subscribe"}),
        ('{allow, all, subscribe, ["eq a/#", "b"]}.', {"topics": ["b"], "action": "subscribe"}),
        ('{deny, all, publish, ["#"]}. {allow, all, all, ["$x/y"]}.', {"topics": ["#", "$SYS/#", "$x/#"]}),
        ('{deny, all, publish, ["+/x"]}.', {"topics": ["+/x", "$SYS/x"]}),
        ('{deny, {zone, "z"}, publish, ["a"]}.', {"topics": ["a"]}),
        ('{deny, {\'and\', [{zone, "z"}, {user, "a"}]}, publish, ["a"]}.', {"topics": ["a"], "users": ["a"]}),
        ('{deny, {user, {re, "^a.b$"}}, publish, ["a"]}.', {"topics": ["a"], "users": ["a?b"]}),
        ('{allow, {\'or\', [{user, "a"}, {zone, "z"}]}, publish, ["a"]}.', {"topics": ["a"], "users": ["a"]}),
        ('{allow, {ipaddr, "10.1.2.3/8"}, publish, ["a"]}.', {"topics": ["a"], "addresses": ["10.0.0.0/8"]}),
        ('{allow, all, {publish, [{qos, 0}, {qos, 1}]}, ["a"]}.', {"topics": ["a"], "qos": [0, 1]}),
        ('{deny, all, {publish, [{retain, all}, {retain, true}]}, ["a"]}.', {"topics": ["a"]}),
        ('{allow, all, publish, ["a/%c"]}.', {"topics": ["a/%c"]}),
        ('{allow, all, publish, ["a/{username}"]}.', None),
        ('{allow, all, {publish, [{qos, []}]}, ["a"]}.', None),
        ('{allow, {ipaddrs, []}, publish, ["a"]}.', None),
        ('{allow, {security_profile, legacy}, publish, ["a"]}.', None),
        ("{allow, {security_profile, legacy}}.", None),
        ("{allow, {surprise, x}}.", None),
        ('{allow, all, publish, ["a" "b"]}.', None),
        ('{allow, {user, "a\\tb"}, publish, ["a"]}.', None),
    ],
)
def test_rules(tmp_path: Path, rule: str, expected: dict[str, Any] | None) -> None:
    """What ours cannot say is left out of a rule that allows, and widens one that denies; the rest stays exact."""
    rules = run(tmp_path, USERS, rule)[2]["authorization"].get("rules", [])
    if expected is None:
        assert rules == []
    else:
        action = {} if 'all, all, ["all' in rule else {"action": "publish"}
        assert rules[0] == {"permit": rule[1:].partition(",")[0], **action, **expected}


def test_what_is_not_said_is_told(tmp_path: Path) -> None:
    """A rule that is wider or left out is told, and the status is 1."""
    status, told, _ = run(tmp_path, "", '{deny, {client_attr, "a", "b"}, all, ["x"]}. {allow, {zone, "z"}}.')
    assert (status, len(told.splitlines())) == (1, 2)
    assert all('{deny, {client_attr, "a", "b"}' in line or "{allow, {zone" in line for line in told.splitlines())


def test_names_that_nobody_checks(tmp_path: Path) -> None:
    """Without authentication Sluice believes no user name: what is denied to one user is denied to all."""
    status, told, made = run(tmp_path, "", '{deny, {user, "guest"}, publish, ["a"]}. {allow, all}.')
    assert (status, "believes no user name" in told) == (1, True)
    assert made["authorization"]["rules"][0] == {"permit": "deny", "topics": ["a"], "action": "publish"}


def test_names_of_something_else(tmp_path: Path) -> None:
    """Where client ids are those of users, nothing is allowed by a client id that anybody may take."""
    rules = '{allow, {clientid, "boss"}, all, ["#"]}. {allow, all, publish, ["own/${clientid}"]}. {deny, all}.'
    status, _, made = run(tmp_path, f"{USERS}mqtt.use_username_as_clientid = true", rules)
    assert (status, made["authorization"]) == (1, {"default": "deny"})


def test_names_with_wildcards(tmp_path: Path) -> None:
    """What is denied to a client by its own name is denied with the wildcard that a name may have, as in EMQX."""
    rules = run(tmp_path, USERS, '{deny, all, publish, ["a/${clientid}/b"]}.')[2]["authorization"]["rules"]
    deny = {"permit": "deny", "action": "publish"}
    assert rules == [
        {**deny, "topics": ["a/{client_id}/b"]},
        {**deny, "topics": ["a/#"], "client_ids": ["*+*", "*#*"]},
    ]


def test_dollar_topics(tmp_path: Path) -> None:
    """`#` in a rule of EMQX that denies matches topics that begin with $ too; they are not allowed by default."""
    authorization = run(tmp_path, USERS, '{deny, {user, "a"}, all, ["#"]}.')[2]["authorization"]
    assert authorization == {
        "default": "deny",
        "rules": [
            {"permit": "deny", "topics": EVERYTHING, "users": ["a"]},
            {"permit": "allow", "topics": EVERYTHING},
        ],
    }


@pytest.mark.parametrize("profile", ["legacy", "hardened", None])
def test_security_profile(tmp_path: Path, profile: str | None) -> None:
    """The rule that EMQX 6.3 ships allows what it does with the profile of emqx.env, and nothing if that says none."""
    if profile is not None:
        (tmp_path / "emqx.env").write_text(f"# EMQX_SECURITY_PROFILE=legacy\nEMQX_SECURITY_PROFILE={profile}\n")
    authorization = run(tmp_path, USERS, "{allow, {security_profile, legacy}}.")[2]["authorization"]
    allowed = [{"permit": "allow", "topics": EVERYTHING}] if profile == "legacy" else None
    assert (authorization["default"], authorization.get("rules")) == ("deny", allowed)


def test_hardened(tmp_path: Path) -> None:
    """With the security profile hardened nobody gets in without authentication, and listeners are on loopback."""
    (tmp_path / "emqx.env").write_text("EMQX_SECURITY_PROFILE=hardened\n")
    made = run(tmp_path, "listeners.ws.default.bind = 9000")[2]
    assert (made["allow_anonymous"], made["authorization"]["default"]) == (False, "deny")
    assert [each["bind"] for each in made["listeners"]] == ["127.0.0.1:1883", "127.0.0.1:9000"]


@pytest.mark.parametrize(
    "setting",
    [
        'exhook.servers = [{ url = "http://127.0.0.1" }]',
        "banned.bootstrap_file = x",
        'plugins.states = [{ name = "a" }]',
    ],
)
def test_what_may_deny_anything(tmp_path: Path, setting: str) -> None:
    """What may deny anything and is not taken over leaves nothing allowed."""
    status, _, made = run(tmp_path, setting)
    assert (status, made["authorization"]) == (1, {"default": "deny"})


@pytest.mark.parametrize(
    "setting",
    ['mountpoint = "${username}/"', 'access_rules = ["allow 10.0.0.0/8", "deny all"]'],
)
def test_listeners_that_would_let_more_in(tmp_path: Path, setting: str) -> None:
    """A listener whose setting keeps clients out or apart is left out, and that is told."""
    status, told, made = run(tmp_path, f"listeners.tcp.default {{ {setting} }}")
    assert (status, [each["name"] for each in made["listeners"]]) == (1, ["ws-default"])
    assert "the listener is left out" in told


def test_own_authentication_of_a_listener(tmp_path: Path) -> None:
    """A listener with authenticators of its own is not opened without them."""
    own = "listeners.tcp.default.authentication = [{ mechanism = password_based, backend = redis }]"
    status, _, made = run(tmp_path, own)
    assert (status, [each["name"] for each in made["listeners"]]) == (1, ["ws-default"])
    assert run(tmp_path, f"{own}\nlisteners.ws.default.enable = false")[0] == 2


def test_certificate_and_password(tmp_path: Path) -> None:
    """Where EMQX asks for a certificate and a password, a certificate alone is not enough."""
    make_certificates(tmp_path)
    listener = (
        f'listeners.ssl.default.ssl_options {{ cacertfile = "{tmp_path}/ca.pem", certfile = "{tmp_path}/server.pem",\n'
        f'keyfile = "{tmp_path}/server.key", verify = verify_peer, fail_if_no_peer_cert = true }}\n'
    )
    (mutual,) = (each for each in run(tmp_path, USERS + listener)[2]["listeners"] if "tls" in each)
    assert (mutual["allow_anonymous"], mutual["tls"]["require_client_certificate"]) == (False, True)
    (tmp_path / "sluice.yaml").unlink()
    named = run(tmp_path, f"{USERS}{listener}mqtt.peer_cert_as_username = cn")
    assert (named[0], any("tls" in each for each in named[2]["listeners"])) == (1, False)


def test_lists_are_replaced(tmp_path: Path) -> None:
    """A list of a later file replaces that of an earlier one, as in EMQX; no authenticator is made of two."""
    (tmp_path / "cluster.hocon").write_text("authentication = [{ mechanism = jwt, from = username }, { a = b }]")
    from config import emqx

    (tmp_path / "emqx.conf").write_text("authentication = [{ mechanism = password_based }]")
    assert [(each.name, each.value) for each in emqx.read([tmp_path])] == [
        ("authentication.1.mechanism", "password_based")
    ]


@pytest.mark.parametrize(
    "more",
    [
        "authentication { 2 { enable = false } }",
        "authentication { 2 { mechanism = jwt, enable = false } }",
        "authentication { 1 { mechanism = password_based, backend = built_in_database, enable = false } }",
        "authentication.1.enable = false",
        "authentication {}",
        "authorization { sources { 1 { type = http, enable = false } } }",
        "authorization { sources { 2 { type = http, enable = false } } }",
        "authentication += { mechanism = jwt, enable = false }",
        "authorization { sources { 1 { enable = false } } }",
        'node.name = "a", authorization.sources += { type = file, path = "etc/acl.conf" }',
    ],
)
def test_parts_of_lists(tmp_path: Path, more: str) -> None:
    """What changes or adds a part of a list is named, and nothing is written: the library forgets the other parts."""
    both = "authentication = [{ mechanism = password_based, backend = built_in_database }, { mechanism = jwt }]\n"
    both += "authorization { sources = [{ type = http }, { type = file }] }\n"
    for there, here in (("", both + more), (both, more)):
        (tmp_path / "cluster.hocon").write_text(there)
        status, told, made = run(tmp_path, here)
        assert (status, made, "write the list at one place" in told) == (2, {}, True)


def test_lists_of_substitutions(tmp_path: Path) -> None:
    """A part of a list that is put together of others is noticed too; what is no part of one is not."""
    own = "own = [{ mechanism = password_based, backend = built_in_database }]\n"
    off = "authentication { 1 { mechanism = jwt, enable = false } }"
    for text in (f"{own}authentication = ${{own}}\n{off}", f"{own}authentication = ${{own}} [{{ a = b }}]\n{off}"):
        assert run(tmp_path, text)[0] == 2
    text = "same { max_inflight = 5 }\nmqtt = ${same}\nmqtt { max_mqueue_len = 6 }\n"
    made = run(tmp_path, f"{text}authentication {{ 1 {{ mechanism = jwt }} }}")[2]
    assert made["session"] == {"max_inflight": 5, "max_mqueue_len": 6, "max_mqueue_bytes": "infinity"}


def test_no_authentication(tmp_path: Path) -> None:
    """`authentication = []` is none, as the dashboard leaves it behind."""
    status, told, made = run(tmp_path, "authentication = []")
    assert (status, told, made["allow_anonymous"], "authentication" in made) == (0, "", True, False)


@pytest.mark.parametrize("value", ["null", "none", "[none]"])
def test_authentication_that_is_none(tmp_path: Path, value: str) -> None:
    """A single value in place of the list of authenticators is a mistake, and nothing is written."""
    status, told, made = run(tmp_path, f"authentication = {value}")
    assert (status, made, "write a list of authenticators, or [] for none" in told) == (2, {}, True)


@pytest.mark.parametrize(("value", "status"), [("marked_for_deletion", 0), ("null", 0), ("1883", 1)])
def test_removed_listeners(tmp_path: Path, value: str, status: int) -> None:
    """A default listener that the dashboard has removed is not opened."""
    tcp = f'listeners.tcp {{ default = {value}, own.bind = "127.0.0.1:1883" }}'
    found = run(tmp_path, f"{tcp}\nlisteners.ws.default = null")
    assert (found[0], [each["bind"] for each in found[2]["listeners"]]) == (status, ["127.0.0.1:1883"])


@pytest.mark.parametrize(
    "line",
    [
        "allow_anonymous = false",
        "auth.user.1.username = admin",
        "listener.tcp.external = 0.0.0.0:1883",
        "zone.a.b = on",
        "allow_anonymous : false",
        "cluster.discovery = manual",
        "node.crash_dump = log/crash.dump",
        "log.to = file",
    ],
)
def test_emqx_4(tmp_path: Path, line: str) -> None:
    """A file of EMQX 4 is named as one, with the line that shows it, and nothing is written."""
    status, told, made = run(tmp_path, f"## EMQX\nnode.name = emqx@127.0.0.1\n{line}\nlog.dir = [\n")
    assert (status, made) == (2, {})
    assert f"{tmp_path}/emqx.conf:3: {line.partition(' ')[0]} is a setting of EMQX 4" in told
    assert not (tmp_path / "sluice-users").exists()


@pytest.mark.parametrize("form", ["node.name = {}", "node {{\n  name : {}\n}}"])
def test_names_of_nodes(tmp_path: Path, form: str) -> None:
    """EMQX 4 and 5 take the name of a node without quotes: the line and what to write are named."""
    status, told, _ = run(tmp_path, "# Name\n" + form.format("emqx@127.0.0.1 # own"))
    number = 2 if "." in form else 3
    assert (status, told) == (
        2,
        f'sluice: {tmp_path}/emqx.conf:{number}: write the value in quotes: "emqx@127.0.0.1"\n',
    )
    assert run(tmp_path, form.format('"emqx@127.0.0.1"'))[0] == 0


def test_what_is_said_of_rules(tmp_path: Path) -> None:
    """A rule that cannot be taken over as it is is named once, by its line, with all that is to be said."""
    rules = '{allow, all, subscribe, ["a"]}.\n\n{deny, {user, "b"},\n  publish, ["${zone}/a"]}.\n{allow, all}.\n'
    status, told, _ = run(tmp_path, "", rules)
    rule = '{deny, {user, "b"}, publish, ["${zone}/a"]}'
    places = "topics have {username}, {client_id} and {role} only"
    names = "without authentication Sluice believes no user name"
    assert (status, told) == (1, f"{tmp_path}/acl.conf:3 {rule}: it denies more: {places}; {names}\n")
    assert f"# {tmp_path}/acl.conf:3 {rule}\n" in (tmp_path / "sluice.yaml").read_text()


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """Headers and addresses for an authenticator may have secrets: neither the output nor the file has them."""
    own = 'url = "http://root:secret-1@127.0.0.1/?key=secret-2", headers { authorization = secret-3, "X-A" = secret-4 }'
    (tmp_path / "emqx.conf").write_text(f"authentication = [{{ mechanism = password_based, backend = http, {own} }}]")
    result = CliRunner().invoke(app, ["import", "emqx", str(tmp_path), "--output", str(tmp_path / "sluice.yaml")])
    assert (result.exit_code, "url = http://***@127.0.0.1/?key=***" in result.stdout) == (1, True)
    assert "secret-" not in result.stdout + result.stderr + (tmp_path / "sluice.yaml").read_text()
