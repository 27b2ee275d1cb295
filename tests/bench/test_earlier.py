"""A bench builds the commit that it compares with: once, into an environment of its own."""

import subprocess
from pathlib import Path

import pytest

from tests.bench.candidates import find_sluice
from tests.bench.earlier import python_of

pytestmark = pytest.mark.once

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "sluice-mqtt"
version = "{version}"
[tool.setuptools]
packages = ["protocol"]
"""


def git(folder: Path, *arguments: str) -> None:
    """Run git, with nobody's configuration."""
    names = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of three commits: two versions, and one that cannot be built."""
    folder = tmp_path / "repository"
    (folder / "protocol").mkdir(parents=True)
    (folder / "protocol" / "__init__.py").touch()
    (folder / "protocol" / "decoder.py").touch()
    git(folder, "init", "--quiet")
    for tag, project in (
        ("old", PROJECT.format(version="0.0.1")),
        ("new", PROJECT.format(version="0.0.2")),
        ("broken", "[project\n"),
    ):
        (folder / "pyproject.toml").write_text(project)
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", tag)
        git(folder, "tag", tag)
    return folder


@pytest.mark.slow
def test_revision_is_built_once(repository: Path, tmp_path: Path) -> None:
    """The environment has that commit's Sluice and this one's dependencies; the second time nothing is built."""
    said: list[str] = []
    python = python_of("old", said.append, repository, tmp_path / "cache")
    assert find_sluice(python).version == f"Sluice 0.0.1, interpreted, {python}"
    subprocess.run([python, "-I", "-c", "import uvloop, pydantic"], check=True)
    assert python_of("old", said.append, repository, tmp_path / "cache") == python
    assert python_of("new~1", said.append, repository, tmp_path / "cache") == python
    assert len(said) == 1
    assert python_of(python, said.append, repository, tmp_path / "cache") == python


def test_no_such_revision(repository: Path, tmp_path: Path) -> None:
    """What is neither a Python nor a revision is named."""
    with pytest.raises(LookupError, match="nothing is neither a Python nor a revision"):
        python_of("nothing", repository=repository, cache=tmp_path)


@pytest.mark.slow
def test_build_that_fails(repository: Path, tmp_path: Path) -> None:
    """The last lines of a failed build are shown, and it is tried again the next time."""
    for _ in range(2):
        with pytest.raises(LookupError, match=r"(?s)could not be built, .* failed; its last lines:.*toml"):
            python_of("broken", repository=repository, cache=tmp_path)
