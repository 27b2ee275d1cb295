"""The installed wheel: it carries the compiled modules, and everything else that the packages hold."""

import ast
import os
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("protocol", "session", "config", "broker", "spark_jobs")


@pytest.mark.skipif(os.environ.get("SLUICE_EXPECT") != "compiled", reason="the run on the sources installs no wheel")
def test_the_wheel_is_complete() -> None:
    """Every file of the packages is in it, and every hot module is a compiled one."""
    carried = {str(file) for file in metadata.files("sluice-mqtt") or ()}
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    sources = {str(path.relative_to(ROOT)) for path in files if path.suffix not in {".md", ".pyc"}}
    assert sources - carried == set()
    setup = ast.parse((ROOT / "setup.py").read_text()).body
    assignments = [each for each in setup if isinstance(each, ast.Assign)]
    (hot,) = [ast.literal_eval(each.value) for each in assignments if _names(each) == ["HOT"]]
    for folder in hot:
        assert any(name.startswith(f"{folder}/") and name.endswith(".so") for name in carried), folder


def _names(assignment: ast.Assign) -> list[str]:
    return [target.id for target in assignment.targets if isinstance(target, ast.Name)]
