"""Rendering: every value with its source, in a form that can be loaded; secrets are not shown."""

import re
from pathlib import Path

import pytest
from pydantic import SecretStr

import config
from config import Config
from config.load import Loaded
from config.render import render

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", ["true", "null", "010", "1e3", "1.5", "0x10", "1_0", "2024-01-01", "off", "a.b"])
def test_text_that_looks_like_something_else(path: Path, name: str) -> None:
    """A name that YAML could read as a number or constant is quoted."""
    path.write_text(render(config.load(None, {}, {"node_name": name})))
    assert config.load(path, {}).config.node_name == name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the test's file."""
    return tmp_path / "sluice.yaml"


def lines(text: str) -> dict[str, str]:
    """Each line: the text before the comment -> the comment."""
    pairs = (line.partition("  # ") for line in text.splitlines())
    return {left.strip(): right for left, _, right in pairs}


def test_every_value_says_where_it_comes_from(path: Path) -> None:
    """Values are in written form, followed by file and line, variable, flag or default."""
    path.write_text("session:\n  max_mqueue_bytes: 1024KiB\n")
    environ = {"SLUICE_SESSION__RETRY_INTERVAL": "0.5s", "SLUICE_SESSION__MAX_INFLIGHT": "0"}
    shown = lines(render(config.load(path, environ, {"log.level": config.Flag("--log-level", "debug")})))
    assert shown["max_mqueue_bytes: 1MiB"] == f"{path}:2"
    assert shown["retry_interval: 500ms"] == "SLUICE_SESSION__RETRY_INTERVAL"
    assert shown["max_inflight: infinity"] == "SLUICE_SESSION__MAX_INFLIGHT"
    assert shown["level: debug"] == "--log-level"
    assert shown["session_expiry_interval: 2h"] == "default"
    assert shown["- name: default"] == "default"
    assert shown["session:"] == ""


def test_limits_of_flow_control(path: Path) -> None:
    """FC-10, FC-11, FC-24: no limit is shown as infinity, a window of 0 as 0B."""
    path.write_text("session: {consumer_window_size: 0}\naddresses: [{match: a/#, max_size_bytes: 2048}]\n")
    shown = lines(render(config.load(path, {"SLUICE_ADMIN__SOCKET": "null"})))
    assert shown["consumer_window_size: 0B"] == f"{path}:1"
    assert shown["consumer_max_rate: infinity"] == "default"
    assert shown["stalled_window: 1m"] == "default"
    assert shown["threshold: 0.5"] == "default"
    assert shown["- match: a/#"] == f"{path}:2"
    assert shown["max_size_bytes: 2KiB"] == f"{path}:2"
    assert shown["reject_threshold_bytes: infinity"] == "default"
    assert shown["socket: null"] == "SLUICE_ADMIN__SOCKET"


def test_nothing_is_left_out() -> None:
    """Each key has its line."""
    loaded = config.load(None, {})
    text = render(loaded)
    assert text.endswith("\n")
    assert sum("  # " in line for line in text.splitlines()) == len(loaded.sources)


def test_what_is_shown_can_be_loaded(path: Path, tmp_path: Path) -> None:
    """Loading the rendered text gives the same configuration."""
    pem = tmp_path / "a # pem: 'x'"
    pem.write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
    flags: dict[str, object] = {
        "listeners": [
            {"name": "a", "bind": "[::1]:0"},
            {"name": "1", "bind": "127.0.0.1:0", "tls": {"certfile": pem, "minimum_version": "1.3"}},
        ],
        "node_name": "true",
        "metrics.interval": "1234567us",
        "mqtt.keepalive_multiplier": 2,
        "mqtt.server_keep_alive": "90s",
        "session.retry_interval": "infinity",
        "session.consumer_window_size": 0,
        "session.producer_max_rate": 1000,
        "session.slow_consumer.threshold": 0.5,
        "session.mqueue_priorities": [{"match": "alarms/#", "weight": 255}],
        "addresses": [
            {"match": "+/1", "max_size_bytes": "1KiB", "reject_threshold_bytes": 1024, "block_timeout": "infinity"},
            {"match": "#", "max_size_bytes": 1, "full_policy": "page", "page_full_policy": "drop"},
        ],
        "persistence.directory": tmp_path,
        "admin.socket": None,
    }
    loaded = config.load(None, {}, flags)
    path.write_text(render(loaded))
    assert config.load(path, {}).config == loaded.config


class _Account(Config):
    user: str = "ann"
    password: SecretStr = SecretStr("opensesame")


def test_secrets_are_not_shown() -> None:
    """A secret field is shown as stars, whatever its source."""
    sources = config.load(None, {}).sources | {"user": "default", "password": "SLUICE_PASSWORD"}
    text = render(Loaded(_Account(), sources))
    assert "opensesame" not in text
    shown = lines(text)
    assert (shown["user: ann"], shown["password: '***'"]) == ("default", "SLUICE_PASSWORD")


def test_the_watermark_of_this_machine() -> None:
    """FC-32: `auto` stays what it is, and its source says what that is here; a number has its source alone."""
    text = render(config.load(None, {}))
    (line,) = [line for line in text.splitlines() if line.startswith("memory_watermark")]
    assert re.fullmatch(r"memory_watermark: auto +# default: [0-9]+[MG]iB, .+ of .+", line)
    shown = lines(render(config.load(None, {"SLUICE_MEMORY_WATERMARK": "2GiB"})))
    assert shown["memory_watermark: 2GiB"] == "SLUICE_MEMORY_WATERMARK"


def test_secrets_in_addresses(path: Path) -> None:
    """Addresses are shown without passwords and the values of a query, in the text and by the admin API."""
    path.write_text(
        "authentication:\n  http: {url: 'https://a.example.com/?key=battery'}\n"
        "  jwt: {algorithms: [RS256], jwks_url: 'https://b.example.com/k?key=battery'}\n"
        "  postgres: {host: h, user: u, query: 'select $1', database: 'postgres://u:battery@h/d'}\n"
    )
    loaded = config.load(path, {})
    told = [value for _, value, _ in config.settings(loaded.config, loaded.sources)]
    text = render(loaded)
    for shown in ("https://a.example.com/?key=***", "https://b.example.com/k?key=***", "postgres://***@h/d"):
        assert shown in text
        assert shown in told
    assert "battery" not in text + str(told)
