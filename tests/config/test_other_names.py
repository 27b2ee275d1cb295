"""Other brokers' names of keys are answered with ours."""

from pathlib import Path

import pytest

import config
from config.other_names import OTHER_NAMES
from config.schema import field_at, known_keys


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_lead_to_keys(name: str) -> None:
    """Each name leads to existing keys, and is not itself a key in those sections."""
    for key in OTHER_NAMES[name].split(" or "):
        path: list[str | int] = []
        for part in key.split("."):
            path += [part.removesuffix("[]"), 0] if part.endswith("[]") else [part]
        assert field_at(tuple(path)) is not None
    assert all(known[-1] != name for known in known_keys())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_queued_messages: 5", "did you mean session.max_mqueue_len?"),
        ("session: {max_queued_messages: 5}", "did you mean 'max_mqueue_len'?"),
        ("session: {max-queued-messages: 5}", "did you mean 'max_mqueue_len'?"),
        ("mqtt: {Max_Queued_Messages: 5}", "did you mean session.max_mqueue_len?"),
        ("persistent_client_expiration: 1d", "did you mean mqtt.session_expiry_interval?"),
        ("max_inflight_messages: 5", "did you mean session.max_inflight?"),
        ("message_size_limit: 5", "did you mean mqtt.max_packet_size?"),
        ("max_packet_size: 1MB", "did you mean mqtt.max_packet_size?"),
        ("max_connections: 5", "did you mean mqtt.max_connections?"),
        ("retry_interval: 5s", "did you mean session.retry_interval?"),
        ("mqtt: {keepalive: 5s}", "did you mean 'server_keep_alive'?"),
        ("listener: 1883", "did you mean 'listeners'?"),
        ("port: 1883", "did you mean listeners[].bind?"),
        ("listeners: [{port: 1883, bind: '127.0.0.1:1'}]", "did you mean 'bind'?"),
        ("listeners: [{bind: '127.0.0.1:1', certfile: x}]", "did you mean listeners[].tls.certfile?"),
        ("listeners: [{bind: '127.0.0.1:1', node_name: x}]", "did you mean node_name at the top of"),
        ("paging: {directory: pages}", "did you mean persistence.directory?"),
        ("acl_file: x", "did you mean authorization.acl_file?"),
    ],
)
def test_suggestions(tmp_path: Path, text: str, message: str) -> None:
    """The key is suggested in the form for that place."""
    file = tmp_path / "sluice.yaml"
    file.write_text(text)
    (problem,) = config.check(file)
    assert message in problem.message


def test_variable() -> None:
    """An environment variable with such a name leads to ours."""
    with pytest.raises(config.ConfigError, match="did you mean SLUICE_SESSION__MAX_MQUEUE_LEN"):
        config.load(environ={"SLUICE_MAX_QUEUED_MESSAGES": "5"})
