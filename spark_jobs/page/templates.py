"""Fills the Jinja2 templates of the pages. Everything that is put into one is escaped, except `Html`."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_jobs.page.markup import Html


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("spark_jobs.page"),
        autoescape=True,
        undefined=StrictUndefined,  # a missing value is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def fill(template: str, **values: Any) -> Html:
    """A template with these values."""
    return Html(_environment().get_template(template).render(values))


def fill_page(template: str, *, zoom: bool = False, **values: Any) -> str:
    """A whole page with style and script. Nothing is loaded, and only this script runs, whatever a client id has.

    Args:
        template: its name.
        zoom: whether the page has something that `zoom.js` draws.
        values: of the template.
    """
    style, script = _asset("style.css"), _asset("script.js")
    if zoom:
        style = _asset("uplot.css") + style
        script = f"/*\n{_asset('uplot-license.txt')}*/\n{_asset('uplot.js')}{_asset('zoom.js')}{script}"
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return str(fill(template, style=Html(style), script=Html(script), policy=Html(policy), **values))


@cache
def _asset(name: str) -> str:
    return files("spark_jobs.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
