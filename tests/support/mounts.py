"""Brokers and commands in a mount namespace of their own, in which single files are mounted as containers do it."""

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.brokers import SLUICE

UNSHARE = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")


def mounting(files: Mapping[Path, Path], *command: str) -> tuple[str, ...]:
    """The command in a namespace where each file is mounted at its place; skips the test where that is not allowed."""
    for place in files.values():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    mounts = [f"mount --bind {shlex.quote(str(file))} {shlex.quote(str(place))}" for file, place in files.items()]
    try:
        shell = [*UNSHARE, "sh", "-c", " && ".join(mounts)]
        tried = subprocess.run(shell, check=False, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if tried.returncode:
        pytest.skip(f"a mount namespace is not allowed here: {tried.stderr.strip()}")
    return (*UNSHARE, "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh", *(command or SLUICE))
