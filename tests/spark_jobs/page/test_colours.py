"""The colours of the page: enough contrast of text and lines, light and dark."""

import re
from importlib.resources import files

import pytest

pytestmark = pytest.mark.once

TEXT = 4.5  # WCAG 2.2, 1.4.3: contrast of text
MARKS = 3.0  # WCAG 2.2, 1.4.11: contrast of graphics


def palettes() -> dict[str, dict[str, str]]:
    """The colours by name, light and dark, from the style sheet."""
    style = files("spark_jobs.page").joinpath("style.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    return {
        name: dict(re.findall(r"--(\w+): (#[0-9a-f]{6})\b(?![0-9a-f])", text))
        for name, text in (("light", light), ("dark", dark))
    }


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast from 1 (same colour) to 21 (black on white)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_there_is_enough_contrast(scheme: str) -> None:
    """Text and lines have enough contrast on the paper and on panels."""
    colours = palettes()[scheme]
    for name in ("ink", "soft", "bad", "good", "watch", "run0", "run1", "pressed"):
        for ground in ("paper", "panel"):
            assert contrast(colours[name], colours[ground]) >= TEXT, (name, ground)
    for name in ("qos0", "qos1", "qos2", "run0", "run1", "calm", "pressed", "asked"):
        assert contrast(colours[name], colours["paper"]) >= MARKS, name


def test_both_schemes_have_the_same_colours() -> None:
    """The dark page redefines every colour of the light one."""
    found = palettes()
    assert found["light"].keys() == found["dark"].keys()
