"""`sluice import mosquitto`: what decides about access is read as Mosquitto reads it, or closes what it is about."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from tests.broker.cli.test_importing import import_from
from tests.support.broker.logins import fast_hash
from tests.support.brokers import HOST
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess, clean_environment, free_port
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

EVERYTHING: Final = ["#", "$SYS/#"]
OPEN: Final = "listener 1884\nallow_anonymous true\n"
TLS: Final = "cafile CA\ncertfile SERVER\nkeyfile KEY\n"
CLOSED: Final = [{"permit": "deny", "topics": EVERYTHING, "listeners": ["listener-1884"]}]


@pytest.fixture
def folder(certificates: Certificates, tmp_path: Path) -> Path:
    """Users and rules."""
    (tmp_path / "users").write_text(f"ann:{fast_hash('secret')}\n")
    (tmp_path / "patterns").write_text("pattern readwrite %c/#\n")
    (tmp_path / "names").write_text("user ann\ntopic readwrite a/#\n")
    return tmp_path


def imported(folder: Path, text: str, certificates: Certificates, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Status, what is printed, and the result."""
    for word, path in (
        ("CA", certificates.cafile),
        ("SERVER", certificates.server.certfile),
        ("KEY", certificates.server.keyfile),
    ):
        text = text.replace(f" {word}\n", f" {path}\n")
    (folder / "mosquitto.conf").write_text(text)
    output = folder / "sluice.yaml"
    status, out, err = import_from(folder, "-o", output, *arguments)
    assert status in (0, 1), err
    return status, out + err, yaml.safe_load(output.read_text())


def test_comments_behind_values(folder: Path, certificates: Certificates) -> None:
    """What follows the first word of a value does not count, as in Mosquitto."""
    text = (
        "per_listener_settings true # each its own\nretain_available false # no\npersistence true # yes\n"
        "port 1885 # old\nmax_inflight_messages 7 # few\nmax_keepalive 30 # s\nsys_interval 5 # s\n"
        f"listener 1884 # TLS\nprotocol mqtt # bare\n{TLS}require_certificate true # mTLS\n"
        "use_identity_as_username 1 # name\nlistener 1886 127.0.0.1 # local\nallow_anonymous true # all\n"
    )
    status, _, result = imported(folder, text, certificates)
    assert status == 0
    first, second, third = result["listeners"]
    assert [each["bind"] for each in (first, second, third)] == ["0.0.0.0:1885", "0.0.0.0:1884", "127.0.0.1:1886"]
    assert [each["allow_anonymous"] for each in (first, second, third)] == [False, False, True]
    assert (second["tls"]["require_client_certificate"], second["tls"]["username"]) == (True, "{cn}")
    mqtt = result["mqtt"]
    assert (mqtt["retain_available"], mqtt["server_keep_alive"], mqtt["sys_interval"]) == (False, "30s", "5s")
    assert (result["session"]["max_inflight"], "directory" in result["persistence"]) == (7, True)


@pytest.mark.parametrize(
    "lines",
    [
        "plugin /x.so",
        "mount_point there/",
        "clientid_prefixes dev-",
        "use_username_as_clientid true # x",
        f"{TLS}use_identity_as_username true",
        f"{TLS}require_certificate true\nuse_subject_as_username true",
    ],
)
def test_what_has_no_counterpart(folder: Path, certificates: Certificates, lines: str) -> None:
    """What decides about access and has no counterpart denies everything on its listener, with exit status 1."""
    status, told, result = imported(folder, OPEN + lines + "\n", certificates)
    assert (status, result["authorization"]["rules"], result["allow_anonymous"]) == (1, CLOSED, False)
    assert "everything is denied" in told
    assert re.search(r"no counterpart, or need none; look at \d of them first", told)


def test_only_its_own_listener(folder: Path, certificates: Certificates) -> None:
    """With per_listener_settings a plugin closes the listener that it is about, and no other one."""
    text = f"per_listener_settings true\n{OPEN}plugin /x.so\nlistener 1885\nallow_anonymous true\n"
    _, _, result = imported(folder, text, certificates)
    free = {"permit": "allow", "topics": EVERYTHING, "listeners": ["listener-1885"]}
    assert result["authorization"]["rules"] == [*CLOSED, free]
    assert [each["allow_anonymous"] for each in result["listeners"]] == [False, True]


def test_included_files(folder: Path, certificates: Certificates) -> None:
    """An included file begins with the default listener, as in Mosquitto, not with the last one of the first file."""
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "a.conf").write_text("allow_anonymous true\n")
    text = "per_listener_settings true\nlistener 1884\npassword_file users\ninclude_dir conf.d\n"
    _, _, result = imported(folder, text, certificates)
    assert result["allow_anonymous"] is False


def test_topics_that_begin_with_dollar(folder: Path, certificates: Certificates) -> None:
    """A listener where everything is denied is closed to topics of the ACL file that `#` does not match, too."""
    (folder / "hidden").write_text("topic readwrite $own/x\nuser ann\ntopic read a/#\n")
    text = "per_listener_settings true\nlistener 1885\npassword_file users\nacl_file hidden\nlistener 1884\n"
    result = imported(folder, text, certificates)[2]
    assert result["authorization"]["rules"] == [CLOSED[0] | {"topics": [*EVERYTHING, "$own/#"]}]


@pytest.mark.parametrize(
    ("backends", "named"),
    [
        ("http", ["authentication.http"]),
        ("postgres, jwt", ["authentication.postgres", "authentication.jwt"]),
        ("mysql", ["a service of your own behind authentication.http"]),
        ("files", ["authentication.password_file"]),
    ],
)
def test_backends(folder: Path, certificates: Certificates, backends: str, named: list[str]) -> None:
    """For a plugin that asks a service or a database the counterpart in Sluice is named, and the result is closed."""
    text = f"{OPEN}auth_plugin /mosquitto/go-auth.so\nauth_opt_backends {backends}\nauth_opt_x_password secret-word\n"
    status, told, result = imported(folder, text, certificates)
    assert (status, result["authorization"]["rules"]) == (1, CLOSED)
    assert all(each in told for each in named)
    assert ("SCRAM" in told, "secret-word" in told) == (False, False)


def test_dynamic_security(folder: Path, certificates: Certificates) -> None:
    """For dynamic security it is said where its users and roles go."""
    _, told, _ = imported(folder, f"{OPEN}plugin /usr/lib/mosquitto_dynamic_security.so\n", certificates)
    assert "authorization.rules with `roles`" in told


@pytest.mark.parametrize("users", ["password_file users\n", ""])
def test_certificate_and_password(folder: Path, certificates: Certificates, users: str) -> None:
    """Where Mosquitto wants a certificate and a password, a certificate alone is not enough."""
    text = f"listener 1884\n{TLS}require_certificate true\n{users}"
    status, told, result = imported(folder, text, certificates)
    assert (status, "authorization" in result) == (0, False), told
    assert [each["allow_anonymous"] for each in result["listeners"]] == [False]
    assert Path(result["authentication"]["password_file"]) == folder / ("users" if users else "sluice-users")


def test_websocket_paths(folder: Path, certificates: Certificates) -> None:
    """Mosquitto takes any path: those that clients use by themselves are both there."""
    status, _, result = imported(folder, f"{OPEN}protocol websockets\n", certificates)
    assert (status, result["listeners"][0]["websocket"]["path"]) == (0, ["/mqtt", "/"])


def test_sentences_once(folder: Path, certificates: Certificates) -> None:
    """A sentence about many lines is printed once, with the lines below it."""
    lines = "".join(f"log_dest file /var/log/{number}\n" for number in range(15))
    _, told, _ = imported(folder, OPEN + lines, certificates)
    assert told.count("the service manager keeps") == 1
    assert all(f"{folder}/mosquitto.conf:{number} log_dest" in told for number in range(3, 18))


def test_claimed_names(folder: Path, certificates: Certificates) -> None:
    """Where Mosquitto believes the user name that a client claims, clients with one are denied, and that is said."""
    address = Address(HOST, free_port())
    text = f"listener {address.port} {HOST}\nallow_anonymous true\nacl_file"
    status, told, result = imported(folder, f"{text} names\n", certificates)
    assert (status, "believes the user name" in told) == (1, True)
    environment = clean_environment(XDG_RUNTIME_DIR=str(folder))
    with BrokerProcess(
        ["run", "--config", str(folder / "sluice.yaml")], folder, environment, forked_on="asyncio"
    ) as it:
        it.wait_until_accepting(address)
        for user, code in (("ann", reason_codes.BAD_USER_NAME_OR_PASSWORD), (None, 0)):
            with WireClient(address, 5) as client:
                client.send(Connect("c", True, username=user, version=5))
                assert client.expect(Connack).reason_code == code
                if code == 0:
                    client.send(Publish(b"a/x", b"x", 1, packet_id=1))
                    assert client.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED
    (folder / "sluice-users").unlink()
    status, _, result = imported(folder, f"{text} patterns\n", certificates, "--force")
    assert (status, "authentication" in result) == (0, False)
