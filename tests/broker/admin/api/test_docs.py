"""The page of the API: the whole document, and nothing from elsewhere."""

import re
from html.parser import HTMLParser
from typing import Any, Final

import pytest

from broker.admin.api.app import Api
from broker.admin.api.docs import page
from broker.admin.links import Links
from broker.server.server import Server
from config.models import Config

pytestmark = pytest.mark.once

HOSTILE: Final = "<script>alert(1)</script>"


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, and what it loads."""
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "action"}]
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def read(document: dict[str, Any]) -> Tags:
    """The page of a document."""
    found = Tags()
    found.feed(page(document))
    return found


async def nowhere() -> str:
    """There is no dashboard."""
    raise OSError


def test_everything() -> None:
    """Each endpoint is there with its parameters, answers and words, and each model with its keys."""
    document = Api(Server(Config()), Links(lambda: 0), nowhere).app.openapi()
    found = read(document)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert f"{method.upper()} {path} {operation.get('description', '').replace('`', '')}" in found.text
            assert all(each["name"] in found.text for each in operation.get("parameters", ()))
    for name, schema in document["components"]["schemas"].items():
        assert name in found.text
        assert all(key in found.text for key in schema.get("properties", {}))
    assert "list of SessionRow" in found.text
    assert not re.search(r"\bNone\b|\{'", found.text), "nothing of Python is left"


def test_safe() -> None:
    """There is no script, nothing inline, and nothing from another address; text is text."""
    document = {
        "info": {"title": HOSTILE, "version": "1"},
        "paths": {"/a": {"get": {"tags": [HOSTILE], "description": HOSTILE, "responses": {}}}},
        "components": {"schemas": {HOSTILE: {"properties": {HOSTILE: {"enum": [HOSTILE], "description": HOSTILE}}}}},
    }
    found = read(document)
    assert {"script", "style", "iframe", "img"}.isdisjoint(found.tags)
    assert found.loaded == ["data:,", "../../dashboard/style.css"]
    assert found.text.count(HOSTILE) >= 6
