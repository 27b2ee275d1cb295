"""What another program is told about a report."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from spark_jobs import cli
from spark_jobs.errors import ReportError
from spark_jobs.webhook import require_url, shown
from tests.spark_jobs.conftest import slow_and_fast
from tests.support.spark.metrics_files import write_metrics

pytestmark = pytest.mark.once


class Hook(HTTPServer):
    """Keeps what it is sent, and answers with `status`."""

    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[str, dict[str, object]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook?token=secret"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
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
        server.shutdown()
        thread.join()


def arguments(folder: Path, url: str) -> list[str]:
    """A report with a limit that is exceeded."""
    write_metrics(folder / "metrics", slow_and_fast(gate=True))
    (folder / "limits.toml").write_text("delivery_ratio = 0.99")
    options = ["--metrics", str(folder / "metrics"), "--out", str(folder / "out"), "--webhook", url]
    return ["report", "--quiet", *options, "--thresholds", str(folder / "limits.toml")]


def test_the_findings_are_sent(hook: Hook, tmp_path: Path) -> None:
    """Grade, findings and limits as in summary.json, once; the exit code is that of the limits."""
    assert cli.main(arguments(tmp_path, hook.url)) == cli.BEYOND_LIMITS
    [(path, body)] = hook.received
    assert path == "/hook?token=secret"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    for name in ("headline", "grade", "findings", "thresholds"):
        assert body[name] == summary[name]
    assert (body["label"], body["report"]) == ("metrics", str(tmp_path / "out"))


def test_a_hook_that_refuses_is_an_error(hook: Hook, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report is there; the message has the status, and not the token."""
    hook.status = 500
    assert cli.main(arguments(tmp_path, hook.url)) == cli.WRONG_INPUT
    told = capsys.readouterr().err
    assert "answered 500 Internal Server Error; the report in" in told
    assert "secret" not in told
    assert (tmp_path / "out" / "report.html").exists()


def test_a_hook_that_is_not_there_is_an_error(hook: Hook, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens any more: the reason is told."""
    hook.server_close()
    assert cli.main(arguments(tmp_path, hook.url)) == cli.WRONG_INPUT
    assert "refused" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["file:///etc/passwd", "example.com/hook", "https://", "http://a:x/", "http://[/", ""])
def test_only_urls_of_web_servers_are_accepted(url: str) -> None:
    """A file or a host without a scheme is refused before the report is made."""
    with pytest.raises(ReportError, match="expected a URL such as"):
        require_url(url)


def test_secrets_of_a_url_are_not_shown() -> None:
    """Neither user nor path nor query."""
    assert shown("https://ann:pw@example.com:8443/T0/B1?key=2") == "https://example.com:8443/..."
