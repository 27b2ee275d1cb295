"""Certificates that expire: what the log, /metrics, a reload and `sluice config check` say."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from structlog.testing import capture_logs
from typer.testing import CliRunner

from broker.cli.main import app
from broker.server.certificate_dates import CertificateDates, Shown
from broker.server.tls_files import Certificates
from broker.server.x509 import Certificate
from config.tls import Tls
from tests.broker.conftest import Start
from tests.support.broker.admin import request
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.reloads import reload, rewrite
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

DAY = timedelta(days=1)


def issue(path: Path, ca: trustme.CA, begin: timedelta, end: timedelta) -> datetime:
    """Write a certificate with its key, valid from and until so long from now; returns when it expires."""
    now = datetime.now(UTC).replace(microsecond=0)
    own = ca.issue_cert("127.0.0.1", not_before=now + begin, not_after=now + end)
    new = path.with_name("new")
    own.private_key_and_cert_chain_pem.write_to_path(str(new))
    new.replace(path)
    return now + end


def client_context(ca: trustme.CA) -> ssl.SSLContext:
    """A client that trusts this authority."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


def listener(file: Path, **tls: object) -> dict[str, Any]:
    """A listener with this certificate."""
    return {"name": "mqtts", "bind": "127.0.0.1:0", "tls": {"certfile": str(file), **tls}}


def test_start(start: Start, tmp_path: Path) -> None:
    """The start warns of a certificate that expires soon, /metrics says when; one that is renewed is not mentioned."""
    file, ca = tmp_path / "own.pem", trustme.CA()
    expiry = issue(file, ca, -80 * DAY, 3 * DAY)
    broker = start(sections={"listeners": [listener(file)], "admin": {"socket": "a.sock"}})
    (warning,) = wait_for_event(broker, "certificate_expires")
    assert (warning["level"], warning["listener"], warning["file"]) == ("warning", "mqtts", str(file))
    assert "expires in 2 days" in warning["detail"]
    line = 'sluice_certificate_expiry_timestamp_seconds{listener="mqtts"} '

    def told() -> float:
        text = request(broker.folder / "a.sock", "/metrics").text
        return next(float(each.removeprefix(line)) for each in text.splitlines() if each.startswith(line))

    assert told() == expiry.timestamp()
    expiry = issue(file, ca, -DAY, 90 * DAY)
    wait_for_event(broker, "file_read")
    wait_until(lambda: told() == expiry.timestamp(), "the renewed certificate is in the metrics")
    assert len(events(broker, "certificate_expires")) == 1


@pytest.mark.parametrize(("begin", "end"), [(-2 * DAY, -DAY), (DAY, 90 * DAY)])
def test_replaced_by_one_that_is_not_valid(start: Start, tmp_path: Path, begin: timedelta, end: timedelta) -> None:
    """A certificate that is not valid now does not replace a good one: a reload is refused, the log has an error."""
    file, ca = tmp_path / "own.pem", trustme.CA()
    issue(file, ca, -DAY, 90 * DAY)
    tls = {"certfile": str(file)}
    admin = {"socket": "a.sock", "listen": "127.0.0.1:0", "tls": tls, "tokens": [{"name": "a", "sha256": "0" * 64}]}
    broker = start(sections={"listeners": [listener(file)], "admin": admin})
    wait_for_event(broker, "admin_listening")
    issue(file, ca, begin, end)
    refused = reload(broker)
    assert (refused.status, "write one that is valid now" in refused.json["detail"]) == (422, True)
    assert str(file) in refused.json["detail"]
    errors = wait_for_event(broker, "file_not_read", 2)
    assert {error["key"] for error in errors} == {"listeners (mqtts).tls.certfile", "admin.tls.certfile"}
    with WireClient(broker.address("mqtts"), 5, tls=client_context(ca)) as client:
        assert client.connect().reason_code == 0
    issue(file, ca, -DAY, 80 * DAY)
    assert sorted(reload(broker).json["renewed"]) == ["admin.tls.certfile", "listeners[0].tls.certfile"]


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "127.0.0.2:0"])
def test_a_listener_that_gets_one_that_has_expired(start: Start, tmp_path: Path, bind: str) -> None:
    """A reload refuses an expired certificate too for a listener that moves, is new or had no TLS; a start does not."""
    good, old, ca = tmp_path / "good.pem", tmp_path / "old.pem", trustme.CA()
    issue(good, ca, -DAY, 90 * DAY)
    issue(old, ca, -2 * DAY, -DAY)
    plain = {"name": "plain", "bind": "127.0.0.1:0"}
    dead = listener(old) | {"name": "dead"}
    before = [listener(good), plain, dead]
    broker = start(sections={"listeners": before, "admin": {"socket": "a.sock"}})
    (error,) = wait_for_event(broker, "certificate_expires")
    assert (error["level"], error["listener"]) == ("error", "dead")
    wait_for_event(broker, "admin_socket")
    for changed in (
        [listener(old) | {"bind": bind}, plain, dead],
        [listener(good), plain | {"bind": bind, "tls": {"certfile": str(old)}}, dead],
        [*before, listener(old) | {"name": "new", "bind": bind}],
    ):
        rewrite(broker, listeners=[*changed])
        refused = reload(broker)
        assert (refused.status, "write one that is valid now" in refused.json["detail"]) == (422, True)
    rewrite(broker, listeners=[listener(good), plain, dead | {"bind": bind}])
    assert reload(broker).status == 200


@pytest.mark.parametrize(
    ("begin", "end", "status", "said"),
    [
        (-2 * DAY, -DAY, 2, "own.yaml:5: listeners[0].tls.certfile: the certificate has expired on "),
        (DAY, 90 * DAY, 2, "own.yaml:5: listeners[0].tls.certfile: the certificate is not valid before "),
        (-80 * DAY, 5 * DAY, 0, "own.yaml: warning: listeners[0].tls.certfile: the certificate expires in 4 days, on "),
        (-DAY, 90 * DAY, 0, "no mistakes found"),
        (-DAY, 3 * DAY, 0, "no mistakes found"),
    ],
)
def test_check(tmp_path: Path, begin: timedelta, end: timedelta, status: int, said: str) -> None:
    """`config check` ends with 2 for a certificate that is not valid now, and warns of one that expires soon."""
    issue(tmp_path / "own.pem", trustme.CA(), begin, end)
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"listeners": [listener(tmp_path / "own.pem")]}))
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert ("warning" in result.output) == ("warning" in said)
    assert (result.exit_code, said in result.output.replace(str(tmp_path) + "/", "")) == (status, True), result.output


@pytest.mark.parametrize("valid", [False, True])
def test_check_of_authorities(tmp_path: Path, valid: bool) -> None:
    """`config check` ends with 2 if no authority of a listener is valid now; one that is suffices."""
    old = tmp_path / "old.pem"
    issue(tmp_path / "own.pem", trustme.CA(), -DAY, 90 * DAY)
    issue(old, trustme.CA(), -9 * DAY, -DAY)
    if valid:
        old.write_bytes(old.read_bytes() + trustme.CA().cert_pem.bytes())
    file = tmp_path / "own.yaml"
    own = listener(tmp_path / "own.pem", cafile=str(old), partial_chain=True)
    file.write_text(yaml.safe_dump({"listeners": [own]}))
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    said = "listeners[0].tls.cafile: no authority is valid now (the last one: "
    assert (result.exit_code, said in result.output) == ((0, False) if valid else (2, True)), result.output


def test_check_of_a_pair(tmp_path: Path) -> None:
    """`config check` looks at key and certificate together."""
    ca = trustme.CA()
    for name in ("own.pem", "other.pem"):
        issue(tmp_path / name, ca, -DAY, 90 * DAY)
    file = tmp_path / "own.yaml"
    own = listener(tmp_path / "own.pem", keyfile=str(tmp_path / "other.pem"))
    file.write_text(yaml.safe_dump({"listeners": [own]}))
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert result.exit_code == 2
    assert "listeners[0].tls: certificate " in result.output
    assert "the key is not the one of the certificate" in result.output


def authority(path: Path, ca: trustme.CA) -> None:
    """Write the authority into the file that is followed."""
    new = path.with_name("new")
    ca.cert_pem.write_to_path(str(new))
    new.replace(path)


def test_authorities_that_are_not_valid(start: Start, tmp_path: Path) -> None:
    """Authorities of which none is valid now do not replace good ones: a reload is refused, and clients get in."""
    own, file, ca = tmp_path / "own.pem", tmp_path / "ca.pem", trustme.CA()
    issue(own, ca, -DAY, 90 * DAY)
    authority(file, ca)
    tls = {"cafile": str(file), "require_client_certificate": True, "partial_chain": True}
    admin: dict[str, Any] = {"listen": "127.0.0.1:0", "tls": {"certfile": str(own), **tls}}
    admin |= {"socket": "a.sock", "tokens": [{"name": "a", "sha256": "0" * 64}]}
    broker = start(sections={"listeners": [listener(own, **tls)], "admin": admin})
    wait_for_event(broker, "admin_listening")
    issue(file, trustme.CA(), -9 * DAY, -DAY)
    refused = reload(broker)
    assert (refused.status, "no authority is valid now" in refused.json["detail"]) == (422, True)
    assert str(file) in refused.json["detail"]
    for error in wait_for_event(broker, "file_not_read", 2):
        assert "no authority is valid now" in error["detail"]
    context = client_context(ca)
    ca.issue_cert("ann").configure_cert(context)
    with WireClient(broker.address("mqtts"), 5, tls=context) as client:
        assert client.connect().reason_code == 0
    authority(file, ca)
    assert reload(broker).status == 200


def test_start_with_authorities_that_are_not_valid(start: Start, tmp_path: Path) -> None:
    """A start takes authorities of which none is valid now, with an error; others like them may replace them."""
    own, file, ca = tmp_path / "own.pem", tmp_path / "ca.pem", trustme.CA()
    issue(own, ca, -DAY, 90 * DAY)
    issue(file, ca, -9 * DAY, -DAY)
    tls = {"cafile": str(file), "partial_chain": True}
    broker = start(sections={"listeners": [listener(own, **tls)], "admin": {"socket": "a.sock"}})
    (error,) = wait_for_event(broker, "certificate_expires")
    assert (error["level"], error["listener"], error["file"]) == ("error", "mqtts", str(file))
    assert "no authority is valid now" in error["detail"]
    wait_for_event(broker, "admin_socket")
    issue(file, ca, -8 * DAY, -DAY)
    assert reload(broker).json["renewed"] == ["listeners[0].tls.cafile"]


def test_each_is_said_once() -> None:
    """What expires while the broker runs is a warning, then an error, each once; a new certificate is new."""
    day = 86_400.0
    now = [0.0]
    tls = Tls(certfile=Path("a.pem"), cafile=Path("ca.pem"))
    authorities = (Certificate(-90 * day, 20 * day, True, False), Certificate(-90 * day, 5 * day, True, False))
    shown = [Shown("mqtts", tls, Certificates(Certificate(-70 * day, 30 * day, False, False), authorities))]
    dates = CertificateDates(lambda: shown, clock=lambda: now[0])
    with capture_logs() as logged:
        for now[0] in (0.0, 5 * day, 7 * day, 17 * day, 18 * day, 21 * day, 29 * day, 31 * day, 32 * day):
            dates.look()
        shown[0] = shown[0]._replace(certificates=Certificates(Certificate(-70 * day, 33 * day, False, False), ()))
        dates.look()
    said = [(event["log_level"], event["file"]) for event in logged]
    assert said == [
        ("warning", "ca.pem"),
        ("warning", "a.pem"),
        ("error", "ca.pem"),
        ("error", "a.pem"),
        ("warning", "a.pem"),
    ]
    assert {event["event"] for event in logged} == {"certificate_expires"}
