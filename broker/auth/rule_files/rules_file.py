"""Our own file of rules: a YAML list in the form of `authorization.rules`."""

from pathlib import Path
from typing import Final

from broker.auth.rules import Rule, from_settings
from config.rules_file import read_rules

KEY: Final = "authorization.rules_file"


def read(path: Path) -> list[Rule]:
    """Read the rules. Raises OSError; ValueError with every mistake."""
    return [from_settings(rule) for rule in read_rules(path)]
