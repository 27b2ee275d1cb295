"""The explanations on the page, from words.toml."""

import tomllib
from importlib.resources import files
from typing import Final

WORDS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    files("spark_jobs.page").joinpath("words.toml").read_text(encoding="utf-8")
)
"""Section -> name -> text."""
