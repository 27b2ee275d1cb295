"""Loading: precedence, origins, and every mistake at once with its place."""

import math
from pathlib import Path

import pytest

import config
from config import Config, ConfigError, Flag, Listener

pytestmark = pytest.mark.once


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the test's file."""
    return tmp_path / "sluice.yaml"


def mistakes(
    path: Path | None = None, environ: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> list[str]:
    """Load an invalid configuration; returns its mistakes as text, without the folder of the file."""
    with pytest.raises(ConfigError) as caught:
        config.load(path, environ or {}, flags)
    folder = f"{path.parent}/" if path else ""
    return [str(problem).replace(folder, "") for problem in caught.value.problems]


def test_nothing_gives_the_defaults() -> None:
    """Without file, variables and flags all values and sources are defaults."""
    loaded = config.load(None, {})
    assert loaded.config == Config()
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.sources["listeners[0].bind"] == "default"


def test_an_empty_file_gives_the_defaults(path: Path) -> None:
    """An empty file and sections without keys change nothing."""
    for text in ("", "# nothing\n", "session:\n  slow_consumer:\nlog:\n  # level: debug\nmetrics: {}\n"):
        path.write_text(text)
        assert config.load(path, {}).config == Config()


def test_precedence(path: Path) -> None:
    """Flags prevail over variables, variables over the file, the file over the defaults."""
    path.write_text("session:\n  max_inflight: 1\n  max_mqueue_len: 2\n  receive_maximum: 3\n")
    environ = {"SLUICE_SESSION__MAX_MQUEUE_LEN": "20", "SLUICE_SESSION__RECEIVE_MAXIMUM": "30"}
    loaded = config.load(path, environ, {"session.receive_maximum": 300, "log.level": Flag("--log-level", "debug")})
    session = loaded.config.session
    assert (session.max_inflight, session.max_mqueue_len, session.receive_maximum) == (1, 20, 300)
    assert session.max_awaiting_rel == Config().session.max_awaiting_rel
    assert loaded.sources["session.max_inflight"] == f"{path}:2"
    assert loaded.sources["session.max_mqueue_len"] == "SLUICE_SESSION__MAX_MQUEUE_LEN"
    assert loaded.sources["session.receive_maximum"] == "--session.receive_maximum"
    assert loaded.sources["session.max_awaiting_rel"] == "default"
    assert loaded.sources["log.level"] == "--log-level"


def test_lists_are_replaced_whole(path: Path) -> None:
    """A list of a higher layer replaces the list of a lower one."""
    path.write_text("listeners:\n- {name: a, bind: '127.0.0.1:1'}\n- {name: b, bind: '127.0.0.1:2'}\n")
    loaded = config.load(path, {"SLUICE_LISTENERS": '[{"bind": "127.0.0.1:3"}]'})
    assert loaded.config.listeners == [Listener(bind="127.0.0.1:3")]
    assert loaded.sources["listeners[0].bind"] == "SLUICE_LISTENERS"
    assert loaded.sources["listeners[0].name"] == "default"
    assert not [key for key in loaded.sources if key.startswith("listeners[1]")]


def test_flags_that_were_not_given() -> None:
    """A flag that is None is ignored."""
    assert config.load(None, {}, {"log.level": None, "log.format": Flag("--x", None)}).config == Config()


def test_flags_take_lists_and_paths() -> None:
    """Flags may be values that the command line has parsed."""
    flags: dict[str, object] = {"listeners": [{"bind": "[::1]:0"}], "metrics.directory": Path("m")}
    loaded = config.load(None, {}, flags)
    assert (loaded.config.listeners[0].host, loaded.config.metrics.directory) == ("::1", Path("m"))


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `environ`, the process's environment is read."""
    monkeypatch.setenv("SLUICE_LOG__LEVEL", "error")
    assert config.load().config.log.level == "error"


def test_durations_in_a_file(path: Path) -> None:
    """Durations are floats in seconds, no limit is 0 or math.inf."""
    path.write_text("session: {retry_interval: infinity, max_inflight: infinity, await_rel_timeout: 500ms}\n")
    session = config.load(path, {}).config.session
    assert (session.retry_interval, session.max_inflight, session.await_rel_timeout) == (math.inf, 0, 0.5)


EVERY_MISTAKE = """\
node_name: _x
allow_anonymous: maybe
listeners:
  - bind: 0.0.0.0:1883
    tls:
      certfile: /nowhere/x.pem
      require_client_certificate: true
      minimum_version: 1.1
  - name: default
    bind: 0.0.0.0
  - 5
  - bnd: x:1
mqtt:
  max_packet_size: 10mib
  connect_timeout: 30
session:
  max_inflight: 70000
  max_inflight: 3
  mqueue_overflow: drop-oldest
  retry_interval: 0s
  max_mqeue_len: 4
  mqueue_store_qos0: perhaps
max_awaiting_rel: 4
metrics: 5
log: {fromat: json, level: loud}
mqtt5: {}
"""


def test_an_order_without_publishers(path: Path) -> None:
    """FC-33: `group_order: key` with a queue that tells nobody apart is refused, with its line and the way out."""
    path.write_text("session:\n  group_order: key\n")
    (mistake,) = mistakes(path)
    assert mistake == (
        "sluice.yaml:2: session.group_order: found 'key' with mqueue_fairness: fifo: set that to publisher or user, "
        "or write any"
    )
    path.write_text("session: {group_order: key, mqueue_fairness: user}")
    assert config.load(path, {}).config.session.group_order == "key"


def test_every_mistake_at_once(path: Path) -> None:
    """All mistakes of file, variables and flags are reported, each with its place and what was expected."""
    path.write_text(EVERY_MISTAKE)
    environ = {"SLUICE_SESION__MAX_INFLIGHT": "3", "SLUICE_SESSION__AWAIT_REL_TIMEOUT": "5"}
    flags: dict[str, object] = {"session.recieve_maximum": 4, "mqtt.max_connections": Flag("--most", -1)}
    found = mistakes(path, environ, flags)
    expected = [
        "sluice.yaml:1: node_name: found '_x': write 1 to 64 of the characters A-Z a-z 0-9 . _ -",
        "sluice.yaml:2: allow_anonymous: found 'maybe': write true or false",
        "sluice.yaml:6: listeners[0].tls.certfile: there is no file '/nowhere/x.pem'",
        "sluice.yaml:7: listeners[0].tls.require_client_certificate: found true without cafile: set cafile",
        "sluice.yaml:8: listeners[0].tls.minimum_version: found 1.1: write 1.2 or 1.3",
        "sluice.yaml:9: listeners[1].name: found 'default', which is the name of listeners[0]",
        "sluice.yaml:10: listeners[1].bind: found '0.0.0.0', which has no port: write host:port",
        "sluice.yaml:11: listeners[2]: found 5: write keys under it (name, bind, mode, reuse_port",
        "sluice.yaml:12: listeners[3].bind: is missing: write it",
        "sluice.yaml:12: listeners[3].bnd: unknown key; did you mean 'bind'?",
        "sluice.yaml:12: listeners[3].name: found 'default', which is the name of listeners[0]",
        "sluice.yaml:14: mqtt.max_packet_size: found '10mib', and 'mib' is not a unit (did you mean 'MiB'?)",
        "sluice.yaml:15: mqtt.connect_timeout: found 30, a number without a unit: write a number with a unit",
        "sluice.yaml:17: session.max_inflight: found 70000: write at most 65535",
        "sluice.yaml:18: session.max_inflight: is given twice, in lines 17 and 18: keep one",
        "sluice.yaml:19: session.mqueue_overflow: found 'drop-oldest': write drop_oldest, drop_oldest_qos0,",
        "sluice.yaml:20: session.retry_interval: found '0s': write more than 0s",
        "sluice.yaml:21: session.max_mqeue_len: unknown key; did you mean 'max_mqueue_len'?",
        "sluice.yaml:22: session.mqueue_store_qos0: found 'perhaps': write true or false",
        "sluice.yaml:23: max_awaiting_rel: unknown key; did you mean session.max_awaiting_rel?",
        "sluice.yaml:24: metrics: found 5: write keys under it (directory, interval, heartbeat, keep)",
        "sluice.yaml:25: log.fromat: unknown key; did you mean 'format'?",
        "sluice.yaml:25: log.level: found 'loud': write debug, info, warning or error",
        "sluice.yaml:26: mqtt5: unknown key; did you mean 'mqtt'?",
        "--most: mqtt.max_connections: found -1, which is below zero: write a whole number, or infinity",
        "--session.recieve_maximum: session.recieve_maximum: unknown key; did you mean 'receive_maximum'?",
        "SLUICE_SESION__MAX_INFLIGHT: unknown variable; did you mean SLUICE_SESSION__MAX_INFLIGHT?",
        "SLUICE_SESSION__AWAIT_REL_TIMEOUT: session.await_rel_timeout: found '5', a number without a unit",
    ]
    assert len(found) == len(expected)
    for mistake, beginning in zip(found, expected, strict=True):
        assert mistake.startswith(beginning)


FLOW_CONTROL_MISTAKES = """\
session:
  consumer_window_size: -2
  consumer_max_rate: 0
  producer_max_rate: 2000000
  stalled_window: 500ms
  mqueue_priorities:
    - {match: a/#b, weight: 1}
    - {match: a, weight: 300}
    - {match: a, weight: 1}
  slow_consumer:
    threshold: 0
    polcy: notify
addresses:
  - match: a/#
    max_size_bytes: 10MiB
    reject_threshold_bytes: 1MiB
    page_limit_bytes: 0
  - match: a/#
    max_size_bytes: 0
    full_policy: page
  - full_policy: reject
persistence:
  directory:
admin:
  socket: ''
"""


def test_every_mistake_of_flow_control_at_once(path: Path) -> None:
    """FC-10 to FC-14, FC-23 to FC-26: mistakes in a key and between keys are all reported; none hides another."""
    path.write_text(FLOW_CONTROL_MISTAKES)
    expected = [
        "2: session.consumer_window_size: found -2, which is below zero: write a size such as 10MiB",
        "3: session.consumer_max_rate: found 0: write a whole number from 1 to 1000000, or infinity for no limit",
        "4: session.producer_max_rate: found 2000000: write a whole number from 1 to 1000000",
        "5: session.stalled_window: found '500ms': write at least 1s",
        "7: session.mqueue_priorities[0].match: found 'a/#b': write a topic filter",
        "8: session.mqueue_priorities[1].weight: found 300: write at most 255",
        "9: session.mqueue_priorities[2].match: found 'a', which session.mqueue_priorities[1] has too",
        "11: session.slow_consumer.threshold: found 0: write messages a second, above 0",
        "12: session.slow_consumer.polcy: unknown key; did you mean 'policy'?",
        "16: addresses[0].reject_threshold_bytes: found 1MiB, less than max_size_bytes: write 10MiB or more",
        "17: addresses[0].page_limit_bytes: found 0: write 1B or more, or infinity for no limit",
        "18: addresses[1].match: found 'a/#', which addresses[0] has too: keep one of them",
        "19: addresses[1].max_size_bytes: found 0: write at least 1B",
        "20: addresses[1].full_policy: found page without persistence.directory: set that, because",
        "21: addresses[2].full_policy: found 'reject': write block, page, drop or fail",
        "21: addresses[2].match: is missing: write it",
        "21: addresses[2].max_size_bytes: is missing: write it",
        "25: admin.socket: found '': write the path of a socket, 1 to 107 bytes, or default for one that",
    ]
    found = mistakes(path)
    assert len(found) == len(expected)
    for mistake, beginning in zip(found, expected, strict=True):
        assert mistake.startswith(f"sluice.yaml:{beginning}")


def test_a_limit_of_zero_is_refused_however_it_is_written(path: Path) -> None:
    """FC-11, FC-23, FC-26: a 0 that could mean nothing or no limit is refused; FC-10: it has one meaning, accepted."""
    environ = {"SLUICE_SESSION__CONSUMER_MAX_RATE": "0", "SLUICE_SESSION__CONSUMER_WINDOW_SIZE": "0"}
    (mistake,) = mistakes(environ=environ)
    assert mistake.startswith("SLUICE_SESSION__CONSUMER_MAX_RATE: session.consumer_max_rate: found '0'")
    (mistake,) = mistakes(flags={"session.producer_max_rate": 0})
    assert mistake.startswith("--session.producer_max_rate: session.producer_max_rate: found 0")
    path.write_text("persistence: {directory: p}\naddresses:\n- {match: a, max_size_bytes: 1, full_policy: page, ")
    with path.open("a") as file:
        file.write("page_limit_bytes: 0B}\n")
    (mistake,) = mistakes(path)
    assert mistake.startswith("sluice.yaml:3: addresses[0].page_limit_bytes: found '0B'")


def test_the_error_lists_everything(path: Path) -> None:
    """The error's text has one line for each mistake."""
    path.write_text("a: 1\nb: 2\n")
    with pytest.raises(ConfigError, match="the configuration has 2 mistakes:\n") as caught:
        config.load(path, {})
    assert str(caught.value).count("\n") == len(caught.value.problems) == 2
    with pytest.raises(ConfigError, match="the configuration has a mistake:\n"):
        config.load(None, {"SLUICE_X": ""})


def test_a_file_that_cannot_be_read_hides_no_other_mistake(path: Path) -> None:
    """Variables are checked even if the file cannot be parsed; nothing is assumed about its contents."""
    path.write_text("a: [\n")
    found = mistakes(path, {"SLUICE_LOG__LEVEL": "loud", "SLUICE_ALLOW_ANONYMOUS": "false"})
    assert found[0].startswith("sluice.yaml:2: is not YAML")
    assert found[1].startswith("SLUICE_LOG__LEVEL: log.level: found 'loud'")
    assert len(found) == 2


def test_unknown_keys_name_the_known_ones(path: Path) -> None:
    """The message about a key that resembles none lists the keys."""
    path.write_text("log: {zzz: 1}\n")
    assert mistakes(path) == ["sluice.yaml:1: log.zzz: unknown key; the keys here are level, format, max_lines"]


def test_lists_from_variables_say_json() -> None:
    """A listener cannot be set by its index; the message says what works."""
    assert mistakes(environ={"SLUICE_LISTENERS__0__BIND": "127.0.0.1:1"}) == [
        "SLUICE_LISTENERS__0__BIND: listeners: found a mapping (key: value): write a list as JSON in SLUICE_LISTENERS"
    ]


@pytest.mark.parametrize("text", ["listeners:\n", "listeners: []\n", "listeners: {}\n", "listeners: 5\n"])
def test_listeners_that_are_none(path: Path, text: str) -> None:
    """A broker without a listener is a mistake; the message says what was expected."""
    path.write_text(text)
    (mistake,) = mistakes(path)
    assert mistake.startswith("sluice.yaml:1: listeners: found ")
    assert ": write " in mistake


def test_open_beyond_loopback(path: Path) -> None:
    """Listening beyond loopback without authentication is refused unless allow_anonymous is set."""
    path.write_text("listeners:\n  - bind: 0.0.0.0:1883\n")
    (mistake,) = mistakes(path)
    assert mistake.startswith("sluice.yaml:2: listeners[0].bind: 0.0.0.0:1883 can be reached from other machines")
    assert "allow_anonymous: true" in mistake
    assert config.load(path, {"SLUICE_ALLOW_ANONYMOUS": "true"}).config.allow_anonymous is True
    (mistake,) = mistakes(path, {"SLUICE_ALLOW_ANONYMOUS": "false"})
    assert mistake.startswith("SLUICE_ALLOW_ANONYMOUS: allow_anonymous: found false, but listeners[0]")


def test_no_one_could_connect() -> None:
    """allow_anonymous: false with the default listener is a mistake: no client could connect."""
    (mistake,) = mistakes(flags={"allow_anonymous": False})
    assert mistake.startswith("--allow_anonymous: allow_anonymous: found false, but listeners[0] (127.0.0.1:1883)")


def test_no_interval_between_syncs(path: Path) -> None:
    """An interval of 0s is refused with what is probably meant."""
    path.write_text("persistence: {directory: journal, sync: 0s}\n")
    (mistake,) = mistakes(path)
    assert "write commit, or a duration such as 1s" in mistake


def test_tls_files_are_checked(path: Path) -> None:
    """A missing certificate is reported when the configuration is loaded."""
    path.write_text("listeners:\n- bind: 127.0.0.1:0\n  tls: {certfile: none.pem}\n")
    (mistake,) = mistakes(path)
    assert mistake.startswith("sluice.yaml:3: listeners[0].tls.certfile: there is no file 'none.pem'")


def test_check(path: Path) -> None:
    """check() reports the mistakes of the file only."""
    path.write_text("log: {level: debug}\n")
    assert config.check(path) == []
    path.write_text("log: {level: loud}\n")
    (problem,) = config.check(path)
    assert (problem.path, problem.source, problem.line) == ("log.level", str(path), 1)
    assert config.check(path.parent / "none.yaml")[0].message == "there is no such file"


def test_check_leaves_the_environment_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """check() ignores the environment."""
    monkeypatch.setenv("SLUICE_NONSENSE", "1")
    path.write_text("")
    assert config.check(path) == []


@pytest.mark.parametrize("topic", ["  topic: a/b/{topic}\n", "  payload: copy\n"])
def test_drop_events_that_nobody_could_read(path: Path, topic: str) -> None:
    """FC-35: a topic of too many levels is refused with its place, also that of the default."""
    path.write_text(f"mqtt:\n  max_topic_levels: 2\ndrop_events:\n{topic}")
    [mistake] = mistakes(path)
    assert "drop_events.topic" in mistake
    assert "at most 2, which is mqtt.max_topic_levels" in mistake
