"""Mistakes in options and arguments, in the words of all our errors instead of those of pydantic, which typer uses."""

from typing import Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from config.expected import expected
from config.units import found


class Commands(TyperGroup):
    """The commands of the program."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is named."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):
                error.message = "; ".join(_said(each) for each in error.__cause__.errors())
            raise


def _said(mistake: Any) -> str:
    """What is wrong with a value, and what would be right."""
    right = expected(mistake["type"], mistake.get("ctx", {}))
    return right if mistake["type"] == "value_error" else f"found {found(mistake['input'])}: {right}"
