"""Renders the output of a terminal program as text."""

import io

from rich.console import Console, RenderableType


def rendered(shown: RenderableType, width: int) -> str:
    """The text of what is shown in a terminal of this width, without colours."""
    text = io.StringIO()
    Console(file=text, width=width, color_system=None).print(shown)
    return text.getvalue()
