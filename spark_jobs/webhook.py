"""Tells another program about a finished report: the head of summary.json as a POST (`--webhook`)."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from spark_jobs.errors import ReportError

TIMEOUT: Final = 10
"""Seconds."""
HEAD: Final = ("format", "headline", "verdict", "grade", "findings", "thresholds", "baseline")
"""The keys of summary.json that are sent; `report` has the folder, `label` the name of the run."""


def require_url(url: str) -> None:
    """Check the option's value.

    Raises:
        ReportError: it is no URL of a web server.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port):
            return
    except ValueError:  # a port or an address that is none
        pass
    raise ReportError(f"--webhook {shown(url)}: expected a URL such as https://example.com/hook")


def shown(url: str) -> str:
    """The URL without its user, path and query, which may be secret."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    return f"{scheme}://{host}/..." if host else "(not a URL)"


def tell(url: str, summary: Mapping[str, Any], out: str) -> None:
    """Send the head of a summary.

    Raises:
        ReportError: the other side cannot be reached, or does not answer with success.
    """
    body = {name: summary[name] for name in HEAD} | {"label": summary["runs"][-1]["label"], "report": out}
    data = json.dumps(body, ensure_ascii=False).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - see require_url
    complete = f"the report in {out} is complete"
    try:
        with urlopen(request, timeout=TIMEOUT):  # noqa: S310 - see require_url
            pass
    except HTTPError as error:
        error.close()  # it is the answer, too
        raise ReportError(f"--webhook {shown(url)}: answered {error.code} {error.reason}; {complete}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise ReportError(f"--webhook {shown(url)}: {error}; {complete}") from error
