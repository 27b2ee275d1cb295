"""The load generator as a Python function: compiled when its source has changed, its one line of JSON parsed."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.cache import cache_folder
from tests.support.process import BrokerProcess

SOURCES = Path(__file__).parent / "blast"

Result = dict[str, Any]
"""What blast prints; its main.c says what the keys mean."""


class LoadError(Exception):
    """The load could not be driven: blast's message says what the broker did."""


@cache
def build() -> Path:
    """Return the compiled generator."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    program = cache_folder("bench") / f"blast-{digest}"
    if not program.exists():
        compiler = shutil.which("cc")
        if compiler is None:
            raise LoadError("there is no C compiler to build the load generator (Debian: apt install gcc libc6-dev)")
        files = [str(source) for source in sources if source.suffix == ".c"]
        flags = ["-O2", "-Wall", "-Wextra", "-Wno-sign-compare", "-Werror"]
        unfinished = program.with_suffix(".new")
        subprocess.run([compiler, *flags, "-o", str(unfinished), *files, "-lm"], check=True)
        unfinished.rename(program)
    return program


def command(broker: BrokerProcess, arguments: Sequence[str]) -> list[str]:
    """Return the command line that drives a load at a broker and measures the broker's processes."""
    host, port = broker.address()
    pids = ",".join(str(pid) for pid in broker.pids())
    return [str(build()), "--host", host, "--port", str(port), "--pid", pids, *arguments]


def drive(broker: BrokerProcess, arguments: Sequence[str]) -> Result:
    """Run blast to its end and return what it measured; LoadError if it gave up."""
    return finished(subprocess.Popen(command(broker, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE))


def finished(process: subprocess.Popen[bytes]) -> Result:
    """Wait for a blast that somebody else started; it limits its own time."""
    with process:
        output, errors = process.communicate()
    if process.returncode:
        raise LoadError(errors.decode().strip() or f"blast ended with {process.returncode}")
    result: Result = json.loads(output)
    return result
