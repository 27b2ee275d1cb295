"""What another program is told about a report."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from pathlib import Path

import pytest

from spark_jobs import cli, webhook
from spark_jobs.errors import ReportError
from spark_jobs.webhook import HEAD, require_url, shown, tell

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("spark")]

SUMMARY = dict.fromkeys(HEAD) | {"runs": [{"label": "day"}]}


class Hook(HTTPServer):
    """Keeps what it is sent, and answers with `status`; with `slow` set, letter by letter."""

    status = 204
    slow = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[str, dict[str, object]]] = []
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/hook?token=secret"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, json.loads(body)))
        while self.server.slow and not self.server.closing.wait(0.05):
            self.wfile.write(b"H")
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.received.append((self.path, {}))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A web server on loopback."""
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


def arguments(store: Path, folder: Path, url: str, limit: float = 0.9) -> list[str]:
    """A report with a limit that is kept, or with a higher one that is exceeded."""
    (folder / "limits.toml").write_text(f"delivery_ratio = {limit}")
    options = ["--store", str(store), "--out", str(folder / "out"), "--webhook", url]
    return ["report", "--quiet", *options, "--thresholds", str(folder / "limits.toml")]


def test_the_findings_are_sent(hook: Hook, small_store: Path, tmp_path: Path) -> None:
    """Grade, findings and limits as in summary.json, once; the exit code is that of the limits."""
    assert cli.main(arguments(small_store, tmp_path, hook.url, 0.99)) == cli.BEYOND_LIMITS
    [(path, body)] = hook.received
    assert path == "/hook?token=secret"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    documented = (files("spark_jobs") / "MEASURES.md").read_text(encoding="utf-8").partition("\n## The webhook")[2]
    assert set(body) == set(re.findall(r"^\| `(\w+)` \|", documented.partition("\n## ")[0], re.MULTILINE))
    for name in ("headline", "grade", "findings", "thresholds"):
        assert body[name] == summary[name]
    assert (body["label"], body["report"]) == ("store", str(tmp_path / "out"))


def test_a_hook_that_refuses_is_an_error(
    hook: Hook, small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is there; the message has the status, and not the token."""
    hook.status = 500
    assert cli.main(arguments(small_store, tmp_path, hook.url)) == cli.WRONG_INPUT
    told = capsys.readouterr().err
    assert "answered 500 Internal Server Error; the report in" in told
    assert "secret" not in told
    assert (tmp_path / "out" / "report.html").exists()


def test_limits_come_before_a_hook_that_refuses(
    hook: Hook, small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are told; the exit code is that of the limits, which is what was found."""
    hook.status = 500
    assert cli.main(arguments(small_store, tmp_path, hook.url, 0.99)) == cli.BEYOND_LIMITS
    told = capsys.readouterr().err
    assert "threshold exceeded: delivery_ratio is" in told
    assert "answered 500 Internal Server Error" in told


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error(status: int, hook: Hook) -> None:
    """Whoever follows it asks for a page, and the findings are lost: the message has the status."""
    hook.status = status
    with pytest.raises(ReportError, match=f"answered {status} .*name the address that it redirects to"):
        tell(hook.url, SUMMARY, "out")
    assert [path for path, _ in hook.received] == ["/hook?token=secret"]


def test_a_hook_that_answers_too_slowly_is_given_up(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends a letter before each time limit of the connection; the limit of the whole ends it."""
    hook.slow = True
    monkeypatch.setattr(webhook, "LONGEST", 0.3)
    with pytest.raises(ReportError, match=r"no complete answer within 0.3 s; the report in out is complete"):
        tell(hook.url, SUMMARY, "out")


def test_a_hook_that_is_not_there_is_an_error(
    hook: Hook, small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody listens any more: the reason is told."""
    hook.server_close()
    assert cli.main(arguments(small_store, tmp_path, hook.url)) == cli.WRONG_INPUT
    assert "/...: Connection refused; the report in " in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://a/SECRET", "example.com/hook", "https://", "http://a:x/", "http://[/", ""),
        *("http://a/T0/SECRET x", "http://a/SECRET\n", "http://a/SECRETü", "http://a#SECRET\t"),
        *("http://ann:SECRET/x@a/", "SECRET://a/", "http://SECRET x/", "http://a:SECRET@b:x/"),
    ],
)
def test_only_urls_of_web_servers_are_accepted(url: str) -> None:
    """A file, a host without a scheme, what no request can have: refused before the report is made, without secrets."""
    with pytest.raises(ReportError, match=r"expected a URL such as .*/hook, by http or https,") as told:
        require_url(url)
    assert "SECRET" not in str(told.value)


def test_a_user_in_a_url_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No request is sent with it; neither name nor password is told."""
    assert cli.main(arguments(tmp_path, tmp_path, "https://ann:pw@example.com/hook")) == cli.WRONG_INPUT
    told = capsys.readouterr().err
    assert told == "error: --webhook https://example.com/...: names a user; expected the secret in the path or query\n"


def test_secrets_of_a_url_are_not_shown() -> None:
    """Neither user nor path nor query."""
    assert shown("https://ann:pw@example.com:8443/T0/B1?key=2") == "https://example.com:8443/..."
