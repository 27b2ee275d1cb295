"""Fixtures for the tests of the deployment files."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def deploy() -> Path:
    """The folder of the deployment files."""
    return DEPLOY


@pytest.fixture
def script(tmp_path: Path) -> Run:
    """Runs a script; the given commands are replaced with ones that print their arguments."""

    def run(
        path: Path, *arguments: str, stand_ins: Mapping[str, int], **variables: str
    ) -> subprocess.CompletedProcess[str]:
        for name, code in stand_ins.items():
            stand_in = tmp_path / name
            stand_in.write_text(f'#!/bin/sh\necho "{name}" "$@"\nexit {code}\n')
            stand_in.chmod(0o755)
        environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C", **variables}
        return subprocess.run([path, *arguments], capture_output=True, text=True, check=False, env=environment)

    return run
