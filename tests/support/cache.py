"""The folder for what tests and benches download or build once: `.cache` in the repository, ignored by git."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""


def cache_folder(*names: str) -> Path:
    """Return a folder in the cache; it exists."""
    folder = ROOT.joinpath(".cache", *names)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
