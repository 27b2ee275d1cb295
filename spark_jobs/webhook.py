"""Tells another program about a finished report: the head of summary.json as a POST (`--webhook`)."""

import json
import re
from collections.abc import Mapping
from http.client import HTTPException
from threading import Thread
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from spark_jobs.errors import ReportError

TIMEOUT: Final = 10
"""Seconds for a connection, and for each part of the answer."""
LONGEST: Final = 30
"""Seconds for all of it."""
HEAD: Final = ("format", "headline", "verdict", "grade", "findings", "thresholds", "baseline")
"""The keys of summary.json that are sent; `report` has the folder, `label` the name of the run."""
_HOST: Final = re.compile(r"(https?)://(?:[^/?#]*@)?([\w.-]+(?::\d+)?|\[[\da-f:.]+\](?::\d+)?)(?![^/?#])", re.I | re.A)


class _NoRedirects(HTTPRedirectHandler):
    """Takes a redirect as an error: it would be followed by a GET without the findings."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""



def require_url(url: str) -> None:
    """Check the option's value.

    Raises:
        ReportError: it is no URL of a web server, or has what a request cannot have; the message has no secret of it.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port):
            if "@" in parts.netloc:
                raise ReportError(f"--webhook {shown(url)}: names a user; expected the secret in the path or query")
            if url.isascii() and url.isprintable() and " " not in url:
                return
    except ValueError:  # a port or an address that is none
        pass
    example = "https://example.com/hook, by http or https, with spaces and letters beyond ASCII as %XX"
    raise ReportError(f"--webhook {shown(url)}: expected a URL such as {example}")


def shown(url: str) -> str:
    """The URL without its user, path and query, which may be secret, as all of what is no URL may be."""
    found = _HOST.match(url)
    return f"{found[1]}://{found[2]}/..." if found else "(not shown)"


def tell(url: str, summary: Mapping[str, Any], out: str) -> None:
    """Send the head of a summary.

    Raises:
        ReportError: the other side cannot be reached, or does not answer with success, or not in time.
    """
    body = {name: summary[name] for name in HEAD} | {"label": summary["runs"][-1]["label"], "report": out}
    data = json.dumps(body, ensure_ascii=False).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - see require_url
    complete = f"the report in {out} is complete"
    try:
        _send(request)
    except HTTPError as error:
        error.close()  # it is the answer, too
        hint = ", expected 200 to 299: name the address that it redirects to" if 300 <= error.code < 400 else ""
        raise ReportError(f"--webhook {shown(url)}: answered {error.code} {error.reason}{hint}; {complete}") from error
    except OSError as error:
        raise ReportError(f"--webhook {shown(url)}: {_reason(error)}; {complete}") from error
    except (HTTPException, ValueError) as error:  # its text may have parts of the URL
        raise ReportError(f"--webhook {shown(url)}: no answer of HTTP ({type(error).__name__}); {complete}") from None


def _reason(error: OSError) -> str:
    """What the system says, such as `Connection refused`."""
    cause = error.reason if isinstance(error, URLError) else error
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause)


def _send(request: Request) -> None:
    """Send a request in a thread of its own, which is given up if it takes too long.

    Raises:
        OSError, HTTPException, ValueError: it has failed; TimeoutError also if an answer comes too slowly.
    """
    failed: list[Exception] = []

    def run() -> None:
        try:
            build_opener(_NoRedirects).open(request, timeout=TIMEOUT).close()
        except Exception as error:
            failed.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONGEST)
    if thread.is_alive():
        raise TimeoutError(f"no complete answer within {LONGEST} s")
    if failed:
        raise failed[0]
