"""The API as a page: its OpenAPI document in HTML, with nothing from elsewhere and no script."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Response

METHODS: Final = ("get", "post", "delete")

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice · API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../../dashboard/style.css">
</head>
<body>
<main class="api">
{content}
</main>
</body>
</html>
"""

_HEAD: Final = """<h1 id="headline">The API of {title} {version}</h1>
<p class="lead">JSON over HTTP. On the Unix socket (<code>admin.socket</code>) the broker's own user and root need no
token; over TCP each request has one of <code>admin.tokens</code>. Viewers read, operators also act. Programs read
<code>/api/v1/openapi.json</code>, which this page is made from.</p>
<pre>curl --unix-socket SOCKET http://localhost/api/v1/broker
curl -H 'Authorization: Bearer TOKEN' https://HOST:PORT/api/v1/broker</pre>"""


def docs_router(document: Callable[[], dict[str, Any]]) -> APIRouter:
    """The document and its page, each made once: the first request takes 0.2 s, in a thread."""
    router = APIRouter(include_in_schema=False)
    text = cache(lambda: json.dumps(document()))
    html = cache(lambda: page(document()))

    @router.get("/openapi.json")
    def openapi() -> Response:
        return Response(text(), media_type="application/json")

    @router.get("/docs")
    def docs() -> Response:
        return Response(html(), media_type="text/html; charset=utf-8")

    return router


def page(document: dict[str, Any]) -> str:
    """The whole page."""
    info = document["info"]
    head = _HEAD.format(title=escape(info["title"]), version=escape(info["version"]))
    return _PAGE.format(content="\n".join([head, *_sections(document), *_models(document["components"]["schemas"])]))


def _sections(document: dict[str, Any]) -> Iterator[str]:
    """The endpoints, by what they are about."""
    by_tag: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                tag = item[method].get("tags", ["other"])[0]
                by_tag.setdefault(tag, []).append(_endpoint(method, path, item[method]))
    for tag, endpoints in by_tag.items():
        yield f"<section><h2>{escape(tag.capitalize())}</h2>"
        yield from endpoints
        yield "</section>"


def _endpoint(method: str, path: str, operation: dict[str, Any]) -> str:
    does = _words(operation.get("description", ""))
    parts = [f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> <span>{does}</span></summary>"]
    parameters = [
        (each["name"], each["schema"], each.get("description") or each["schema"].get("description", ""))
        for each in operation.get("parameters", ())
    ]
    if parameters:
        parts.append(_table("Parameters", parameters))
    body = operation.get("requestBody")
    if body is not None:
        parts.append(f"<p>The body is {_kind(body['content']['application/json']['schema'])}.</p>")
    answers = [
        (status, _answer(answer), answer["description"] if status != "422" else "wrong values")
        for status, answer in sorted(operation["responses"].items())
    ]
    parts.append(_table("Answers", answers))
    return "\n".join([*parts, "</details>"])


def _answer(answer: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer; an empty one if it is no JSON."""
    content: dict[str, Any] = answer.get("content", {})
    for own in content.values():
        schema: dict[str, Any] = own.get("schema", {})
        return schema
    return {}


def _models(schemas: dict[str, Any]) -> Iterator[str]:
    """What bodies and answers are made of."""
    yield "<section><h2>Models</h2>"
    for name, schema in sorted(schemas.items()):
        fields = [(key, own, own.get("description", "")) for key, own in schema.get("properties", {}).items()]
        does = _words(schema.get("description", ""))
        yield f"<details><summary><code>{escape(name)}</code> <span>{does}</span></summary>"
        yield _table("Keys", fields) if fields else f"<p>{_kind(schema)}</p>"
        yield "</details>"
    yield "</section>"


def _table(caption: str, rows: list[tuple[str, dict[str, Any], str]]) -> str:
    head = f'<div class="scroll"><table><caption>{caption}</caption><tbody>'
    lines = (
        f'<tr><th scope="row" class="words"><code>{escape(name)}</code></th>'
        f'<td class="words">{_kind(schema)}</td><td class="words wrap">{_words(text)}</td></tr>'
        for name, schema, text in rows
    )
    return "\n".join([head, *lines, "</tbody></table></div>"])


def _words(text: str) -> str:
    """A description; what is between backquotes is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _kind(schema: dict[str, Any]) -> str:
    """The type of a value in a few words."""
    if "$ref" in schema:
        return f"<code>{escape(schema['$ref'].rpartition('/')[2])}</code>"
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return " or ".join(_kind(each) for each in schema[choice])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    return escape(" ".join([str(schema.get("type", "anything")), *bounds]))


_BOUNDS: Final = {"minimum": "from", "maximum": "to", "maxLength": "of at most"}
