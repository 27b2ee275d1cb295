"""A browser, and checks of a page in it: overflow, empty plots, overlapping labels.

Each is JavaScript that the browser evaluates in the page; it returns a list of faults as text.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
# No sandbox, because a container has none; no background requests, so that each request is the page's.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


FONTS = {
    "dejavu": "/usr/share/fonts/truetype/dejavu",  # wide
    "liberation": "/usr/share/fonts/truetype/liberation",  # narrow
    "none": "/nonexistent",
}
"""Folders of fonts, for a browser that has no others."""


@contextmanager
def launched(fontconfig: Path | None = None) -> "Iterator[Browser]":
    """Headless Chromium with a temporary profile; skips the test where there is none.

    `fontconfig`: the file that says which fonts there are; None = those of the machine.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'sluice-mqtt[browser]'")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        fonts = {} if fontconfig is None else {"FONTCONFIG_FILE": str(fontconfig)}
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, env={**os.environ, **fonts})
        yield started
        started.close()


_WHERE = """
const named = (e) => `${e.tagName}.${e.getAttribute('class') || ''} ${e.textContent.trim().slice(0, 40)}`;
const clipped = (e) => e && (getComputedStyle(e).overflowX !== 'visible' || clipped(e.parentElement));
const shown = (e) => e.checkVisibility() && e.getClientRects().length > 0;
"""

STICKS_OUT = f"""() => {{
  {_WHERE}
  const found = [];
  const width = document.documentElement.clientWidth;
  const whole = document.documentElement.scrollWidth;
  if (whole > width) found.push(`the page is ${{whole}} wide`);
  for (const e of document.querySelectorAll('body *')) {{
    if (!shown(e) || e.closest('title') || clipped(e.closest('svg') || e.parentElement)) continue;
    const box = e.getBoundingClientRect();
    const out = box.width && (box.right > width + 0.5 || box.left < -0.5);
    if (out) found.push(`${{named(e)}}: ${{box.left}} to ${{box.right}}`);
  }}
  return found;
}}"""

EMPTY_PLOTS = f"""() => {{
  {_WHERE}
  const found = [];
  const painted = (e) => {{
    const style = getComputedStyle(e);
    const drawn = (paint) => paint !== 'none' && paint !== 'rgba(0, 0, 0, 0)';
    const box = e.getBoundingClientRect();
    return (drawn(style.fill) || drawn(style.stroke)) && (box.width > 0.5 || box.height > 0.5);
  }};
  const plots = [...document.querySelectorAll('svg:not(svg svg)')].filter(shown);
  for (const plot of plots) {{
    const box = plot.getBoundingClientRect();
    const marks = [...plot.querySelectorAll('.line, .area, .bar, .dot, .span, .track')].filter(painted);
    if (box.width < 20 || box.height < 5 || !marks.length) found.push(`${{named(plot)}}: ${{marks.length}} marks`);
  }}
  if (!plots.length) found.push('there is no plot at all');
  return found;
}}"""

LABELS_THAT_COLLIDE = f"""() => {{
  {_WHERE}
  const seen = (e) => {{
    const box = e.getBoundingClientRect();
    const cut = e.closest('svg.cut')?.getBoundingClientRect() ?? box;
    const [left, right] = [Math.max(box.left, cut.left), Math.min(box.right, cut.right)];
    return {{ left, right, top: box.top, bottom: box.bottom }};
  }};
  const found = [];
  for (const plot of [...document.querySelectorAll('svg.plot')].filter(shown)) {{
    const boxes = [...plot.querySelectorAll('text')].map((e) => [e, seen(e)]);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {{
      const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (across > 1 && down > 3) found.push(`${{a.textContent}} lies on ${{b.textContent}} in ${{named(plot)}}`);
    }}));
  }}
  return found;
}}"""

STILL_FOLDED = """() => [...document.querySelectorAll('details')].filter((e) => {
  const content = e.querySelector(':scope > :not(summary)');
  return !content.checkVisibility({ contentVisibilityAuto: true }) || content.getBoundingClientRect().height < 5;
}).map((e) => e.textContent.slice(0, 40))"""

SCROLLBARS = """() => [...document.querySelectorAll('.scroll')]
  .filter((e) => getComputedStyle(e).overflowX !== 'visible').map((e) => e.textContent.slice(0, 40))"""


class Opened:
    """A page open in a browser, with its requests and errors."""

    def __init__(self, browser: "Browser", url: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(url)

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def wrong(self, script: str) -> list[str]:
        """The result of a script of this module, after the page has been drawn."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found = self.page.evaluate(script)
        assert isinstance(found, list)
        return found
