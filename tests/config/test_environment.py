"""Environment variables: values, variables that are not ours, mistakes."""

import pytest

from config import environment

pytestmark = pytest.mark.once


def values(**environ: str) -> dict[str, object]:
    """The values of variables without mistakes."""
    layer, problems = environment.read(environ)
    assert problems == []
    return layer.values


def mistakes(**environ: str) -> list[str]:
    """The mistakes of variables, as text."""
    return [str(problem) for problem in environment.read(environ)[1]]


def test_nesting() -> None:
    """Two underscores separate section and key; a value is text."""
    assert values(SLUICE_SESSION__MAX_INFLIGHT="64", SLUICE_NODE_NAME="7", SLUICE_SESSION__RETRY_INTERVAL="1s") == {
        "node_name": "7",
        "session": {"max_inflight": "64", "retry_interval": "1s"},
    }


def test_json() -> None:
    """Lists and sections are JSON; a variable for one key prevails over its section's."""
    assert values(SLUICE_LISTENERS='[{"bind": "127.0.0.1:0"}]') == {"listeners": [{"bind": "127.0.0.1:0"}]}
    assert values(SLUICE_SESSION='{"max_inflight": 1, "max_mqueue_len": 2}', SLUICE_SESSION__MAX_INFLIGHT="3") == {
        "session": {"max_inflight": "3", "max_mqueue_len": 2}
    }


def test_null() -> None:
    """`null` means None where a key may be null, as in a file; elsewhere it is text."""
    assert values(
        SLUICE_ADMIN__SOCKET="null",
        SLUICE_SESSION__SLOW_CONSUMER__THRESHOLD="null",
        SLUICE_ALLOW_ANONYMOUS="null",
        SLUICE_NODE_NAME="null",
    ) == {
        "admin": {"socket": None},
        "session": {"slow_consumer": {"threshold": None}},
        "allow_anonymous": None,
        "node_name": "null",
    }


def test_origins() -> None:
    """The origin of each value is its variable."""
    layer, _ = environment.read({"SLUICE_SESSION": '{"max_inflight": 1}', "SLUICE_LOG__LEVEL": "info"})
    assert str(layer.origin(("session", "max_inflight"))) == "SLUICE_SESSION"
    assert str(layer.origin(("log", "level"))) == "SLUICE_LOG__LEVEL"
    assert layer.origin(("log", "format")) is not None
    assert layer.origin(("mqtt",)) is None


def test_not_ours() -> None:
    """Variables of other programs, of the build, and of Kubernetes for a service are ignored."""
    assert (
        values(
            PATH="/bin",
            sluice_log__level="debug",
            SLUICE="1",
            SLUICE_COMPILE="0",
            SLUICE_OPTIMIZE="1",
            SLUICE_EXPECT="compiled",
            SLUICE_AIRFLOW_PYTHON="/usr/bin/python3",
            SLUICE_DEV_SWITCH="1",
            SLUICE_SERVICE_HOST="10.0.0.1",
            SLUICE_SERVICE_PORT="1883",
            SLUICE_SERVICE_PORT_MQTT="1883",
            SLUICE_PORT="tcp://10.0.0.1:1883",
            SLUICE_PORT_1883_TCP="tcp://10.0.0.1:1883",
            SLUICE_PORT_1883_TCP_ADDR="10.0.0.1",
            SLUICE_MQTT_PORT="tcp://10.0.0.1:1883",
            SLUICE_MQTT_SERVICE_HOST="10.0.0.1",
        )
        == {}
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SLUICE_SESION__MAX_INFLIGHT", "did you mean SLUICE_SESSION__MAX_INFLIGHT?"),
        ("SLUICE_SESSION_MAX_INFLIGHT", "did you mean SLUICE_SESSION__MAX_INFLIGHT?"),
        ("SLUICE_MAX_INFLIGHT", "did you mean SLUICE_SESSION__MAX_INFLIGHT?"),
        ("SLUICE_log__level", "did you mean SLUICE_LOG__LEVEL?"),
        ("SLUICE_PORT", "names are like SLUICE_SESSION__MAX_INFLIGHT"),
        ("SLUICE_", "names are like SLUICE_SESSION__MAX_INFLIGHT"),
        ("SLUICE___", "names are like SLUICE_SESSION__MAX_INFLIGHT"),
    ],
)
def test_unknown_variables(name: str, meant: str) -> None:
    """A variable with our prefix that names no key is a mistake, with a suggestion."""
    (mistake,) = mistakes(**{name: "1"})
    assert mistake.startswith(f"{name}: unknown variable; ")
    assert meant in mistake


@pytest.mark.parametrize("value", ["", "127.0.0.1:1883", "[", "[{'bind': 'x'}]"])
def test_no_json(value: str) -> None:
    """A list that is not JSON is a mistake; the message quotes it."""
    (mistake,) = mistakes(SLUICE_LISTENERS=value)
    assert mistake.startswith(f"SLUICE_LISTENERS: found {value!r}, which is not JSON (")
