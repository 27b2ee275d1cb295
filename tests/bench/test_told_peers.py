"""Brokers that have to be told: why one is not measured, and what they are started with."""

import socket
from pathlib import Path

import pytest

from tests.bench import candidates
from tests.bench.told_peers import TOLD, Told, emqx_environment, flashmq_config, nanomq_config

pytestmark = pytest.mark.once

PROGRAM = """#!/usr/bin/env python3
import os, re, socket, sys
if sys.argv[1:] == ["--version"]:
    print("Broker Version 1.2.3 with extras")
else:
    file = next((each for each in sys.argv if each.endswith(".conf")), None)
    said = open(file).read() if file else os.environ["EMQX_LISTENERS__TCP__DEFAULT__BIND"]
    server = socket.create_server(("127.0.0.1", int(re.search(r"(?:port |:)(\\d+)", said)[1])))
    while True:
        server.accept()
"""


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.name)
def test_absent(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is not there is left out, with the option that would name it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for programs in ({}, {told.name: "/nowhere/broker"}):
        found = candidates.find([told.name], candidates.Sources(programs=programs), tmp_path)
        assert found.candidates == []
        reason = found.missing[told.name]
        assert f"--{told.name} takes the path of" in reason
        assert ("/nowhere/broker is not a program" if programs else f"no {told.name} on PATH") in reason


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.name)
def test_found(told: Told, tmp_path: Path) -> None:
    """A program that is named is started on a free port of its own, with its configuration; here a stand-in for it."""
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (tmp_path / "releases").mkdir()
    (tmp_path / "releases" / "start_erl.data").write_text("13.2 1.2.3\n")
    candidate = told.find(str(program))
    assert candidate.version == f"{told.title} 1.2.3"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with candidate.start(scratch, True) as broker:
        socket.create_connection(broker.address(), timeout=20).close()


def test_configurations_have_no_limits(tmp_path: Path) -> None:
    """Limits that a load would reach are lifted, and only then; everything is on loopback and in the scratch folder."""
    assert "inet4_bind_address 127.0.0.1\n  port 1999\n" in flashmq_config(tmp_path, 1999, False)
    assert "max_qos_msg_pending_per_client 65535\n" in flashmq_config(tmp_path, 1999, True)
    assert "max_" not in flashmq_config(tmp_path, 1999, False)
    assert 'listeners.tcp { bind = "127.0.0.1:1999" }' in nanomq_config(tmp_path, 1999, False)
    assert "max_mqueue_len = 65535" in nanomq_config(tmp_path, 1999, True)
    assert "max_" not in nanomq_config(tmp_path, 1999, False)
    variables = emqx_environment(tmp_path, 1999, True)
    assert variables["EMQX_LISTENERS__TCP__DEFAULT__BIND"] == "127.0.0.1:1999"
    assert variables["EMQX_MQTT__MAX_MQUEUE_LEN"] == "infinity"
    assert variables["EMQX_NODE__DATA_DIR"].startswith(str(tmp_path))
    assert not [name for name in emqx_environment(tmp_path, 1999, False) if "MAX_" in name]
