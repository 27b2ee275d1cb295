"""Generated files of Mosquitto: the import opens nothing, and what it is compared with is what Mosquitto does."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings

from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from tests.imports import mosquitto
from tests.imports.mosquitto_reference import WRITE, Broker, Client, Listener, RefusedError
from tests.support.brokers import find_mosquitto
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import Address, free_port
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

SEED: Final = 36
PAIRS: Final = 60
COMPARED: Final = 12
"""Configurations with which Mosquitto itself is started."""

TOPICS: Final = ("a/x", "b/x", "ann/x", "c1/x")


@pytest.mark.timeout(300)
def test_never_more_open() -> None:
    """No result permits a client anything that Mosquitto does not, whatever the exit status."""
    assert mosquitto.check(PAIRS, SEED) >= PAIRS


@pytest.mark.timeout(300)
@pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto")
def test_as_mosquitto_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The reference lets in the same clients at the same addresses as Mosquitto, and lets them publish the same."""
    compared = 0

    @seed(SEED)
    @settings(
        max_examples=COMPARED,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(mosquitto.files())
    def compare(files: mosquitto.Files) -> None:
        nonlocal compared
        text = files.texts["mosquitto.conf"]
        # Files that are elsewhere, a plugin that is no file, and the port 1883 of others are not for this machine.
        assume(not any(word in str(files) for word in ("gone/", "/mosquitto/", "/nowhere")))
        assume("max_qos 0" not in text)  # QoS 0 has no answer
        for port in ("1882", "1883", "1884", "1885", "1886"):
            text = text.replace(port, str(free_port()))
        folder = tmp_path_factory.mktemp("compared")
        certificates = make_certificates(folder)
        file = mosquitto.Files(files.texts | {"mosquitto.conf": f"user root\n{text}"}).write(folder)
        try:
            expected: Broker | None = Broker(file)
        except RefusedError:
            expected = None
        assume(expected is None or all(each.port != 1883 and each.is_whole for each in expected.listeners))
        compared += 1
        compare_with(file, expected, certificates, str(files))

    compare()
    assert compared >= COMPARED


def compare_with(file: Path, expected: Broker | None, certificates: Certificates, shown: str) -> None:
    """Start Mosquitto in the folder of its files, and connect all clients to all listeners."""
    log = file.with_name("log")
    command = [str(find_mosquitto()), "-v", "-c", str(file)]
    with log.open("w") as output, subprocess.Popen(command, stderr=output, cwd=file.parent) as it:
        try:
            wait_until(lambda: it.poll() is not None or " running" in log.read_text(), "Mosquitto runs or has ended")
            assert (it.poll() is None) == (expected is not None), f"{shown}\n{log.read_text()}"
            if expected is not None:
                compare_clients(expected, certificates, shown)
        finally:
            it.kill()


def compare_clients(expected: Broker, certificates: Certificates, shown: str) -> None:
    """Connect all clients to all listeners, and let them publish."""
    for listener in expected.listeners:
        mount = listener.values.get("mount_point", "")
        for client in mosquitto.CLIENTS:
            named = {topic for topic in TOPICS if expected.permits(listener, client, mount + topic, WRITE)}
            assert may_publish(listener, client, certificates) == named, f"{shown}\n{listener}\n{client}"


def may_publish(listener: Listener, client: Client, certificates: Certificates) -> set[str]:
    """The topics on which a client may publish; none if it is not let in."""
    host = "::1" if listener.values.get("socket_domain") == "ipv6" else "127.0.0.1"
    tls = certificates.client_context(with_certificate=client.common_name is not None) if listener.tls else None
    password = None if client.password is None else client.password.encode()
    permitted = set()
    with suppress(OSError, EOFError), WireClient(Address(host, listener.port), 5, tls=tls) as wire:
        wire.send(Connect(client.client_id, True, username=client.user, password=password, version=5))
        if wire.expect(Connack).reason_code:
            return set()
        for number, topic in enumerate(TOPICS, 1):
            wire.send(Publish(topic.encode(), b"x", 1, packet_id=number))
            if wire.expect(Puback).reason_code < 0x80:
                permitted.add(topic)
    return permitted
