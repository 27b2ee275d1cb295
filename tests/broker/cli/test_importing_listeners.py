"""`sluice import mosquitto` opens the default listener exactly when Mosquitto does."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from config import mosquitto
from tests.support.brokers import HOST, find_mosquitto
from tests.support.certificates import Certificates
from tests.support.process import free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.once, pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto")]

DEFAULT_PORT: Final = 1883
OPTIONS: Final = (
    *("allow_anonymous true", "allow_anonymous false", "acl_file EMPTY", "password_file EMPTY", "psk_file EMPTY"),
    *("max_topic_alias 5", "max_connections -1", "max_connections 0", "max_connections 5", "max_qos 2", "max_qos 1"),
    *("protocol mqtt", "protocol websockets", "use_identity_as_username true", "use_identity_as_username false"),
    *("use_subject_as_username true", "use_subject_as_username false", "use_username_as_clientid true"),
    *("use_username_as_clientid false", "require_certificate true", "require_certificate false", "crlfile EMPTY"),
    *("tls_version tlsv1.2", "socket_domain ipv4", "socket_domain ipv6", "cafile CA", "capath FOLDER", "keyfile KEY"),
    *("certfile SERVER\nkeyfile KEY", "ciphers DEFAULT", "ciphers_tls1.3 TLS_AES_128_GCM_SHA256", "dhparamfile EMPTY"),
    *("tls_engine none", "tls_keyform pem", "tls_keyform engine", "psk_hint hint", "bind_interface lo"),
    *("bind_address 127.0.0.1", "allow_zero_length_clientid true", "allow_zero_length_clientid false"),
    *("auto_id_prefix x", "http_dir FOLDER", "max_keepalive 50", "set_tcp_nodelay true"),
)


@pytest.mark.parametrize("per_listener", ["true", "false"])
@pytest.mark.parametrize("option", OPTIONS)
def test_default_listener(option: str, per_listener: str, certificates: Certificates, tmp_path: Path) -> None:
    """The result has a listener on port 1883 if and only if Mosquitto opens one, which its log says."""
    (tmp_path / "empty").touch(mode=0o600)
    for word, value in (
        ("EMPTY", tmp_path / "empty"),
        ("FOLDER", tmp_path),
        ("CA", certificates.cafile),
        ("SERVER", certificates.server.certfile),
        ("KEY", certificates.server.keyfile),
    ):
        option = option.replace(word, str(value))
    file = tmp_path / "mosquitto.conf"
    other = free_port()
    file.write_text(f"user root\nper_listener_settings {per_listener}\n{option}\nlistener {other} {HOST}\n")
    opened = opened_by_mosquitto(file)
    lines, findings = mosquitto.read(file)
    assert findings == []
    translation = mosquitto.translate(lines, findings, tmp_path / "users", tmp_path / "journal")
    told = [each.text for each in translation.findings if each.line.name == "psk_hint"]
    sections = translation.section.keys["listeners"]
    assert isinstance(sections, list)
    ports = {int(str(each.get("bind")).rpartition(":")[2]) for each in sections}
    assert ports | ({DEFAULT_PORT} if told else set()) == opened
    assert other in ports


def opened_by_mosquitto(file: Path) -> set[int]:
    """The ports that Mosquitto opens, or tries to: the default one may be taken on this machine."""
    log = file.with_name("log")
    command = [str(find_mosquitto()), "-v", "-c", str(file)]
    with log.open("w") as output, subprocess.Popen(command, stderr=output) as it:
        try:
            wait_until(lambda: it.poll() is not None or " running" in log.read_text(), "Mosquitto runs or has ended")
        finally:
            it.kill()  # it would miss SIGTERM between these words and its loop
    return {int(port) for port in re.findall(r"Opening .* listen socket on port (\d+)", log.read_text())}
