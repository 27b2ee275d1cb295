"""Sluice of an earlier commit: built once, installed into an environment of its own, kept in the cache."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from tests.support.cache import ROOT, cache_folder

LAST_LINES = 15
"""How much of a failed build's output is shown."""

TAKEN_FROM_THE_BUILD = ("PYTHONPATH", "SLUICE_COMPILE", "SLUICE_OPTIMIZE")
"""Variables that would make another build than a user gets."""


def quietly(message: str) -> None:
    """Say nothing."""


def python_of(
    name: str, say: Callable[[str], None] = quietly, repository: Path = ROOT, cache: Path | None = None
) -> str:
    """Return a Python that has an earlier Sluice.

    Args:
        name: that Python, as a path or a command such as python3.12; or a revision, which is built if it is not cached.
        say: called with what takes long.
        repository: where the revision is.
        cache: where builds are kept; the project's cache.

    Raises:
        LookupError: there is neither such a Python nor such a revision, or the build failed.
    """
    if Path(name).is_file() or (name.startswith("python") and shutil.which(name)):
        return name
    commit = commit_of(name, repository)
    # What was built for another Python does not run here, and finds the dependencies elsewhere.
    here = hashlib.sha256(f"{sys.version} {sysconfig.get_path('purelib')}".encode()).hexdigest()[:8]
    folder = (cache or cache_folder("bench", "earlier")) / f"{commit[:12]}-{here}"
    finished = folder / "finished"
    if not finished.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        say(f"building {name} ({commit[:12]}), once")
        _build(commit, repository, folder)
        finished.touch()
    return str(folder / "environment" / "bin" / "python")


def commit_of(revision: str, repository: Path = ROOT) -> str:
    """Return the commit of a revision. Raises LookupError if git does not know it."""
    command = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    found = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if found.returncode:
        raise LookupError(f"{revision} is neither a Python nor a revision that git knows in {repository}")
    return found.stdout.strip()


def _build(commit: str, repository: Path, folder: Path) -> None:
    """Build the wheel, and install it into a new environment that has the dependencies of this one."""
    archive, sources, environment = folder / "sources.tar", folder / "sources", folder / "environment"
    _run(["git", "archive", "--output", str(archive), commit], repository, commit)
    sources.mkdir()
    _run(["tar", "--extract", "--file", str(archive)], sources, commit)
    archive.unlink()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    # Not isolated: this environment has what a build needs, at the versions that its own Sluice was built with.
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sources)], folder, commit)
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)], folder, commit)
    wheel = next(folder.glob("*.whl"))
    python = str(environment / "bin" / "python")
    _run([*pip, "--python", python, "install", "--no-deps", "--no-index", str(wheel)], folder, commit)
    # Added after its own packages: those come first.
    site = next(environment.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text("\n".join(dict.fromkeys(map(sysconfig.get_path, ("purelib", "platlib")))))
    shutil.rmtree(sources)


def _run(command: list[str], folder: Path, commit: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in TAKEN_FROM_THE_BUILD}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-LAST_LINES:])
        raise LookupError(f"{commit[:12]} could not be built, {' '.join(command[:4])} failed; its last lines:\n{last}")
