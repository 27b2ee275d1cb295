"""Small segments: each journal makes one."""

import pytest

from broker.storage import spares


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of 64 KiB."""
    monkeypatch.setattr(spares, "SEGMENT", 64 * 1024)
