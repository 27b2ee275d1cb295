"""The models: FLOW-CONTROL's defaults; every bound and validator rejects."""

import math
import platform
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from config import (
    AddressSettings,
    Admin,
    Authentication,
    Authorization,
    Config,
    Listener,
    Metrics,
    Mqtt,
    Priority,
    Quota,
    Rule,
    ScramUser,
    Session,
    SlowConsumer,
    Tls,
    Token,
)
from config.access import FailedLogins
from config.cluster import Cluster
from config.drop_events import DropEvents
from config.models import ProxyProtocol, WebSocket
from config.persistence import Persistence
from config.tokens import Jwt
from config.value_types import MAX_NAME

pytestmark = pytest.mark.once


def test_session_defaults_are_flow_controls() -> None:
    """Names and defaults of section `session` are of FC-1, 5, 7, 8, 10 to 12, 14, 16, 20, 22, 23, 25, 33 to 37."""
    assert Session().model_dump() == {
        "max_inflight": 32,
        "max_mqueue_len": 1000,
        "max_mqueue_bytes": 8 * 1024 * 1024,
        "mqueue_overflow": "drop_oldest",
        "overflow_timeout": 30.0,
        "overflow_offline_grace": 0.0,
        "mqueue_store_qos0": True,
        "conflate": [],
        "max_mqueue_age": math.inf,
        "mqueue_fairness": "fifo",
        "group_order": "any",
        "mqueue_priorities": [],
        "retry_interval": 30.0,
        "consumer_window_size": -1,
        "consumer_max_rate": 0,
        "slow_consumer": {"threshold": 0.5, "check_period": 5.0, "policy": "notify"},
        "stalled_window": 60.0,
        "overflow_patience": 5.0,
        "receive_maximum": 65_535,
        "receive_maximum_policy": "disconnect",
        "max_awaiting_rel": 65_535,
        "await_rel_timeout": 300.0,
        "producer_max_rate": 0,
        "producer_window_size": 65_536,
    }


def test_address_defaults_are_flow_controls() -> None:
    """FC-24 to FC-26: no topic has a limit by default; the default policy is block."""
    assert Config().addresses == []
    assert Config().persistence.directory is None
    assert AddressSettings(match="a/#", max_size_bytes=1).model_dump() == {
        "match": "a/#",
        "max_size_bytes": 1,
        "full_policy": "block",
        "block_timeout": 30.0,
        "reject_threshold_bytes": -1,
        "page_limit_bytes": 0,
        "page_full_policy": "fail",
    }


def test_defaults() -> None:
    """Without configuration: TCP on loopback 1883, no export, allow_anonymous not set."""
    config = Config()
    assert [(listener.host, listener.port, listener.tls) for listener in config.listeners] == [
        ("127.0.0.1", 1883, None)
    ]
    assert config.allow_anonymous is None
    assert config.metrics == Metrics(directory=None, interval=10.0, heartbeat=300.0, keep=30 * 86_400.0)
    assert config.mqtt.max_packet_size == 1024 * 1024
    assert config.mqtt.max_connections == 0
    assert config.mqtt.max_session_expiry_interval == math.inf
    assert (config.log.level, config.log.format) == ("info", "console")
    assert config.admin.socket == "default"
    assert config.memory_watermark == "auto"


KEY = b64encode(bytes(32)).decode()
USER = {"username": "ann", "salt": "A" * 16, "iterations": 4096, "stored_key": KEY, "server_key": KEY}

NO_FILTER: list[object] = ["", "a#", "#/a", "a+/b", "a\0", "$share/g/a", None, 5]

BASE: dict[type[BaseModel], dict[str, Any]] = {
    ProxyProtocol: {"trusted": ["10.0.0.1"]},
    Jwt: {"algorithms": ["RS256"]},
    Listener: {"bind": "127.0.0.1:0"},
    Tls: {"certfile": "a.pem"},
    Token: {"name": "a", "sha256": "0" * 64},
    ScramUser: USER,
    Priority: {"match": "a/#", "weight": 1},
    Rule: {"permit": "deny", "topics": ["a/#"]},
    AddressSettings: {"match": "a/#", "max_size_bytes": 1},
}
"""Required keys of a model besides the key under test."""

REFUSED: list[tuple[type[BaseModel], str, list[object]]] = [
    (Config, "node_name", ["", ".a", "_a", "-a", "a b", "a/b", "ä", "x" * (MAX_NAME + 1), 5, None]),
    (Config, "allow_anonymous", ["maybe", 2, []]),
    (Config, "listeners", [[], None, {}, "127.0.0.1:1883", [5], [{}]]),
    (Config, "mqtt", [None, 5, []]),
    (Config, "session", [None, 5, []]),
    (Config, "addresses", [None, 5, {}, "a/#", [5], [{}], [{"match": "a"}], [{"max_size_bytes": 1}]]),
    (Config, "memory_watermark", [-1, 1.5, "10 M", None, True]),
    (Config, "quotas", [None, 5, {}, [5], [{"surprise": 1}]]),
    (Config, "drop_events", [5, [], "dropped", {"surprise": 1}]),
    (Config, "bridges", [5, {}, "cloud", [{"name": "cloud"}], [{"surprise": 1}]]),
    (DropEvents, "topic", ["", "a\0b", 5, None, "a/+", "a/#", "a/{user}", "a/{", "{topic}", "a{reason}/b"]),
    (DropEvents, "topic", ["$share/g/a", "x" * 65_536]),
    (DropEvents, "payload", ["all", None, 1]),
    (DropEvents, "max_rate", [-2, 1.5, "x", "10/m", "/s", 1_000_001, None, True]),
    (Config, "persistence", [None, 5, []]),
    (Config, "admin", [None, 5, []]),
    (Config, "metrics", [None, 5, []]),
    (Admin, "listen", ["", "x", "host:99999", 1883]),
    (Admin, "tls", [True, "cert.pem", {}]),
    (Admin, "tokens", [None, {}, ["a"], [{}], [{"name": "a", "sha256": "0" * 64}] * 2]),
    (Token, "name", ["", "a b", ".x", None, 5]),
    (Token, "role", ["admin", "", None]),
    (Token, "sha256", ["", "0" * 63, "g" * 64, None, 5]),
    (Config, "log", [None, 5, []]),
    (Config, "authentication", [None, 5, []]),
    (Config, "authorization", [None, 5, []]),
    (Listener, "name", ["", "a b", ".x", None, 5]),
    (Listener, "reuse_port", [1.5, "maybe", [], None]),
    (Listener, "allow_anonymous", [1.5, "maybe", []]),
    (Listener, "mode", [None, 0o660, "rw", "0o660", "66", "0888", "00660"]),
    (Listener, "proxy_protocol", [5, []]),
    (Listener, "bind", ["", "x", "host:99999", None, 1883]),
    (Listener, "tls", [True, "cert.pem", {}]),
    (Listener, "websocket", [5, "mqtt", []]),
    (Listener, "session", [5, "fast", [], {"max_inflght": 1}]),
    (WebSocket, "path", ["", "mqtt", "/a b", "/ä", "/" * 1001, "/a?b", None, 5, [], ["mqtt"], ["/", 5]]),
    (WebSocket, "origins", [None, "https://example.com", [""], [5], ["example.com"], ["https://example.com/"], ["*"]]),
    (WebSocket, "origins", [["https://Example.com"], ["https://a:99999"], ["https://a b"], ["https://ä.example"]]),
    (Tls, "certfile", [None, 5, []]),
    (Tls, "partial_chain", ["maybe", None, 2]),
    *((Tls, key, [5, []]) for key in ("keyfile", "cafile", "crlfile")),
    (Tls, "username", ["", "ann", "{other}", 5]),
    (ProxyProtocol, "trusted", [None, [], ["proxy"], ["10.0.0.1/8"], [5], "10.0.0.1"]),
    (ProxyProtocol, "username", ["", "ann", 5]),
    (Jwt, "algorithms", [None, [], ["none"], ["RS1"], "RS256"]),
    (Jwt, "key_file", ["", 5, []]),
    (Jwt, "jwks_file", ["", 5, []]),
    (Jwt, "jwks_url", [5, []]),
    (Jwt, "jwks_cafile", ["", 5, []]),
    (Jwt, "refresh", [None, "1s", "infinity", 1]),
    (Jwt, "sent_as", [None, "token", 5]),
    (Jwt, "user_claim", [None, "", 5]),
    (Jwt, "roles_claim", ["", 5]),
    (Jwt, "issuer", ["", 5]),
    (Jwt, "audience", ["", 5, ["a"]]),
    (Jwt, "claims", [None, 5, [], {"a": 5}]),
    (Jwt, "leeway", [None, "infinity", -1]),
    (Tls, "require_client_certificate", ["maybe", None, 2]),
    (Tls, "ciphers", ["", "nonsense", "RC4", "ALL", "ECDHE+AESGCM:TLS_AES_128_GCM_SHA256", 5, []]),
    (Tls, "curve", ["", "P-256", "secp192r1", "X25519:prime256v1", 5, []]),
    (Tls, "minimum_version", ["1.1", 1.1, "1.4", "TLSv1.2", 12, None]),
    (Mqtt, "max_packet_size", [255, 0, "infinity", "257MiB", 268_435_461, "1M", None, True]),
    (Mqtt, "max_topic_levels", [0, "infinity", 257, -1, 1.5, None, True]),
    (Mqtt, "mqtt31", ["maybe", None, 2]),
    (Mqtt, "max_clientid_len", [22, 65_536, "infinity", None]),
    (Mqtt, "connect_timeout", [0, "0s", -1, "15", None, True]),
    (Mqtt, "keepalive_multiplier", [0.9, 0, -1, math.inf, math.nan, 101, "x", True, None]),
    (Mqtt, "session_expiry_interval", [-1, "2", None]),
    (Mqtt, "max_session_expiry_interval", [-1, "2", None]),
    (Config, "cluster", ["x", 5, [], {"nodes": 3}]),
    (Cluster, "workers", [0, 65, -1, 1.5, "x", None, True]),
    (Cluster, "link_queue", [0, "1023KiB", "infinity", "x", None]),
    (Mqtt, "max_connections", [-1, 1.0, "x", None, True]),
    (Mqtt, "max_connection_rate", [-1, 1.0, "x", None, True]),
    (Mqtt, "server_keep_alive", [0, "0s", 0.5, 65_536, "x", "infinity", True]),
    (Mqtt, "topic_alias_maximum", [-1, 65_536, "infinity", None, True]),
    (Mqtt, "max_topic_alias_out", [-1, 65_536, "infinity", None, True]),
    (Mqtt, "maximum_qos", [-1, 3, "x", None, True]),
    (Mqtt, "retain_available", ["maybe", None, 2]),
    (Mqtt, "wildcard_subscription_available", ["maybe", None, 2]),
    (Mqtt, "subscription_identifiers_available", ["maybe", None, 2]),
    (Mqtt, "shared_subscription_available", ["maybe", None, 2]),
    (Mqtt, "overlapping_subscriptions", ["both", None, 1]),
    (Mqtt, "check_payload_format", ["maybe", None, 2]),
    (Mqtt, "response_information", ["", "a\0b", "x" * 65_536, 5, "a/#", "+/b", "r/{clientid}", "$SYS/r", "\ud800"]),
    (Mqtt, "redirect_to", ["", "a\0b", "x" * 65_536, 5, ":1883", "a:0", "a:65536", "a:b", "a,b:1", "\ud800"]),
    (Mqtt, "redirect_to", [" a", "a  b", "a\tb", "::1", "[::1", "user@a"]),
    (Mqtt, "redirect", ["moved", None, 1]),
    (Mqtt, "sys_interval", [0, -1, "10", None]),
    (Authentication, "password_file", ["", 5, []]),
    (Authentication, "jwt", [5, [], "RS256"]),
    (Authentication, "postgres", [5, [], "postgresql://db/users"]),
    (Authentication, "http", [5, [], "https://login.example.com/"]),
    (Authentication, "plugins", [None, "ldap", ["ldap"], [{}], [{"name": "a"}, {"name": "a"}]]),
    (Authentication, "failed_logins", [None, 5, []]),
    (FailedLogins, "per_address", [-1, 1.5, "x", None, True]),
    (FailedLogins, "per_user", [-1, 1.5, "x", None, True]),
    (FailedLogins, "period", [0, 0.5, "1", "infinity", None]),
    (Authentication, "scram", [None, "ann", {}, [5], [{}], [USER, USER]]),
    (ScramUser, "username", ["", "a\0b", "a\nb", "x" * 256, "a\u0308", "ª", None, 5]),
    (ScramUser, "salt", ["", "x", "A" * 12, "!" * 16, "ä" * 16, None, 5]),
    (ScramUser, "iterations", [4095, 0, 10_000_001, "infinity", None, True]),
    (ScramUser, "stored_key", ["", "secret", KEY[4:], KEY + KEY, None, 5]),
    (ScramUser, "server_key", ["", "secret", KEY[4:], KEY + KEY, None, 5]),
    (ScramUser, "roles", [None, "a", [""], ["a b"], [5]]),
    (Authorization, "rules", [None, "a", {}, [5], [{}]]),
    (Authorization, "rules_file", ["", 5, []]),
    (Authorization, "acl_file", ["", 5, []]),
    (Authorization, "plugins", [None, "opa", ["opa"], [{}], [{"name": "a"}, {"name": "a"}]]),
    (Authorization, "default", ["perhaps", 1, True]),
    (Authorization, "wide_subscriptions", ["drop", None, 1]),
    (Authorization, "foreign_sessions", ["keep", None, True]),
    (Rule, "permit", ["perhaps", None, True]),
    (Rule, "topics", [None, [], "a", [5], [""], ["a#"], ["{user}"], ["$share/g/a"]]),
    (Rule, "action", ["read", None, 1]),
    (Rule, "users", [None, "a", [5], [""]]),
    (Rule, "roles", [None, "a", [5], [""]]),
    (Rule, "client_ids", [None, "a", [5], [""]]),
    (Rule, "listeners", [None, "a", [5], [""]]),
    (Rule, "addresses", [None, "127.0.0.1", [5], ["a"], ["10.1.0.0/8"], ["10.0.0.0/33"]]),
    (Rule, "qos", [None, 1, [3], [-1], ["1"], [True]]),
    (Rule, "retain", ["maybe", 2]),
    (Authorization, "deny_publish", [None, "a", [5], [""], ["a#"], ["#/a"], ["a+/b"], ["a\0"], ["$share/g/a"]]),
    (Authorization, "deny_subscribe", [None, "a", [5], [""], ["a#"], ["#/a"], ["a+/b"], ["a\0"], ["$share/g/a"]]),
    (Authorization, "bridge_state", ["maybe", None, 2]),
    (Authorization, "refused_subscribe", ["drop", None, 0x80]),
    (Authorization, "refused_publish", ["drop", None, 1]),
    (Session, "max_inflight", [-1, 65_536, 1.5, "x", None, True]),
    (Session, "max_mqueue_len", [-1, 1.5, "x", None, True]),
    (Session, "max_mqueue_bytes", [-1, 1.5, "10 M", None, True]),
    (Session, "mqueue_overflow", ["drop", "DROP_OLDEST", None, 1]),
    (Session, "overflow_timeout", ["500ms", 0, "infinity", None]),
    (Session, "overflow_offline_grace", ["-1s", "infinity", None]),
    (Session, "mqueue_store_qos0", ["maybe", None, 2]),
    (Session, "conflate", [["a/#/b"], "a", [""], [1], None]),
    (Session, "max_mqueue_age", [0, -1, "30", None]),
    (Session, "mqueue_fairness", ["client", "FIFO", None, 1]),
    (Session, "group_order", ["keyed", "Any", None, 1, "key"]),
    (Session, "mqueue_priorities", [None, 5, {}, "a/#", [5], [{}], [{"match": "a"}], [{"weight": 1}]]),
    (Session, "retry_interval", [0, -1, "30", None]),
    (Session, "consumer_window_size", [-2, 1.5, "10 M", "-1B", None, True]),
    (Session, "consumer_max_rate", [-2, 1.5, "x", 1_000_001, None, True]),
    (Session, "slow_consumer", [None, 5, []]),
    (Session, "overflow_patience", [-1, "5", "-1s", "199ms", "infinity", None, True]),
    (Session, "stalled_window", [0, 0.9, "999ms", -1, "60", None, True]),
    (Session, "receive_maximum", [0, 65_536, "infinity", None]),
    (Session, "receive_maximum_policy", ["ignore", None]),
    (Session, "max_awaiting_rel", [-1, "x", None]),
    (Session, "await_rel_timeout", [0, -1, "300", None]),
    (Session, "producer_max_rate", [-2, 1.5, "x", 1_000_001, None, True]),
    (Session, "producer_window_size", [0, -1, "infinity", 1.5, None, True]),
    (SlowConsumer, "threshold", [0, -1, "0", 1_000_001, "x", "infinity", math.inf, math.nan, True, [], 10**309]),
    (SlowConsumer, "check_period", [0, 0.9, "999ms", "infinity", math.inf, "5", None, True]),
    (SlowConsumer, "policy", ["kill", None, 1]),
    (Priority, "match", NO_FILTER),
    (Priority, "weight", [0, 256, -1, "infinity", 1.5, None, True]),
    (AddressSettings, "match", NO_FILTER),
    (AddressSettings, "max_size_bytes", [0, "0B", -1, "infinity", 1.5, None, True]),
    (AddressSettings, "full_policy", ["BLOCK", "reject", None, 1]),
    (AddressSettings, "block_timeout", [0, "0s", -1, "30", None, True]),
    (AddressSettings, "reject_threshold_bytes", [-2, 1.5, "10 M", None, True]),
    (AddressSettings, "page_limit_bytes", [-1, 1.5, "10 M", None, True]),
    (AddressSettings, "page_full_policy", ["block", "page", None, 1]),
    (Quota, "users", [None, "a", [5], [""]]),
    (Quota, "roles", [None, "a", [5], [""]]),
    (Quota, "max_connections", [-1, 1.5, "x", True]),
    (Quota, "max_kept_sessions", [-1, 1.5, "x", True]),
    (Quota, "max_subscriptions", [-1, 1.5, "x", True]),
    (Quota, "max_filter_levels", [-1, 257, "x", True]),
    (Quota, "max_retained_messages", [-1, 1.5, "x", True]),
    (Quota, "max_retained_bytes", [-1, 1.5, "10 M", True]),
    (Quota, "producer_max_rate", [-2, 1.5, "x", 1_000_001, True]),
    (Quota, "producer_max_bytes", [-1, 1.5, "10 M", True]),
    (Quota, "max_inflight", [-1, 65_536, 1.5, "x", True]),
    (Quota, "max_mqueue_len", [-1, 1.5, "x", True]),
    (Quota, "max_mqueue_bytes", [-1, 1.5, "10 M", True]),
    (Persistence, "directory", ["", "~/journal", 5, []]),
    (Persistence, "directory", ["", 5, []]),
    (Persistence, "sync", ["0s", -1, "61s", "infinity", "never", "1", None, True]),
    (Persistence, "memory", [-1, 1.5, "10 M", None, True]),
    (Persistence, "max_bytes", [-1, 1, "1KiB", 1.5, "10 M", None, True]),
    (Admin, "socket", ["", "a\0b", "x" * 108, "ä" * 54, 5, [], True]),
    (Metrics, "directory", ["", 5, [], "a\0b", "\ud800"]),
    (Metrics, "interval", [0, 0.09, "infinity", math.inf, None]),
    (Metrics, "heartbeat", [0, -1, "x", None]),
    (Metrics, "keep", [0, -1, "23h", "x", None]),
]


@pytest.mark.parametrize(
    ("model", "key", "value"), [(model, key, value) for model, key, values in REFUSED for value in values]
)
def test_every_validator_rejects(model: type[BaseModel], key: str, value: object) -> None:
    """A value out of bounds or of the wrong type is refused; the message names the key."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(BASE.get(model, {}) | {key: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {key}


def test_no_key_is_left_out_of_the_rejections() -> None:
    """REFUSED has values for every key of every model."""
    tested = {(model, key) for model, key, _ in REFUSED}
    models: list[type[BaseModel]] = [Config, Listener, Tls, WebSocket, Mqtt, Authentication, FailedLogins]
    models += [ScramUser, Rule, Token, Jwt, ProxyProtocol, Quota, DropEvents, Cluster]
    models += [Authorization, Session, SlowConsumer, Priority, AddressSettings, Persistence, Admin, Metrics]
    assert tested == {(model, key) for model in models for key in model.model_fields}


@pytest.mark.parametrize(("key", "value"), [("level", "loud"), ("level", None), ("format", "xml"), ("format", 1)])
def test_log_rejects(key: str, value: object) -> None:
    """Log levels and formats other than the known ones are refused."""
    with pytest.raises(ValidationError):
        Config.model_validate({"log": {key: value}})


def test_unknown_keys_are_refused() -> None:
    """Every model refuses unknown keys."""
    models: list[type[BaseModel]] = [Config, Listener, Tls, Mqtt, ScramUser, Token, Session, SlowConsumer, Priority]
    models += [AddressSettings, Persistence, Admin, Metrics]
    for model in models:
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            model.model_validate(BASE.get(model, {}) | {"surprise": 1})


def test_nothing_changes_after_loading() -> None:
    """Models are frozen."""
    with pytest.raises(ValidationError, match="frozen"):
        Config().session.max_inflight = 1


def test_a_config_survives_its_own_dump() -> None:
    """A dumped configuration can be validated and is equal."""
    config = Config(
        listeners=[Listener(name="a", bind="127.0.0.1:0", tls=Tls(certfile=Path("a.pem")))],
        addresses=[AddressSettings(match="a", max_size_bytes=1)],
        session=Session(mqueue_priorities=[Priority(match="a", weight=2)]),
    )
    assert Config.model_validate(config.model_dump()) == config


def test_a_config_in_python_holds_the_rules_too() -> None:
    """The model checks the rules between keys too, not only the loader."""
    with pytest.raises(ValidationError, match=r"listeners\[0\]\.bind: 0\.0\.0\.0:1883 can be reached"):
        Config(listeners=[Listener(bind="0.0.0.0:1883")])
    with pytest.raises(ValidationError, match="without cafile"):
        Config(listeners=[Listener(bind="0.0.0.0:1", tls=Tls(certfile=Path("a"), require_client_certificate=True))])
    with pytest.raises(ValidationError, match=r"addresses\[0\]\.full_policy: found page without persistence\."):
        Config(addresses=[AddressSettings(match="a", max_size_bytes=1, full_policy="page")])
    with pytest.raises(ValidationError, match=r"session\.mqueue_priorities\[1\]\.match: found 'a'"):
        Config(session=Session(mqueue_priorities=[Priority(match="a", weight=weight) for weight in (1, 2)]))


@pytest.mark.parametrize(
    ("host", "name"),
    [("vm-1.example", "vm-1.example"), ("my host", "my-host"), ("_x", "x"), ("", "sluice"), ("ö" * 9, "sluice")],
)
def test_the_host_names_the_node(monkeypatch: pytest.MonkeyPatch, host: str, name: str) -> None:
    """The default node name is the machine's name, valid in a file name."""
    monkeypatch.setattr(platform, "node", lambda: host)
    assert Config().node_name == name
