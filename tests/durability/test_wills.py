"""FC-27: wills after kill -9, some hundred of them. `python -m tests.durability.wills` takes 10,000 clients."""

import asyncio
from pathlib import Path

from tests.durability.wills import expected, run

COUNT = 300


def test_each_will_comes_once(tmp_path: Path) -> None:
    """Each will comes once within 10 s of the restart, unless its client is back; after the next restart none does."""
    first, second = asyncio.run(run(tmp_path, COUNT))
    assert first.wrong(expected(COUNT)) == ""
    assert second.wrong([]) == ""
