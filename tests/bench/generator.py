"""The load generator as a Python function: compiled if its source has changed; its line of JSON is parsed."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.bench.instructions import NotCountedError, counting
from tests.support.cache import cache_folder
from tests.support.process import BrokerProcess

SOURCES = Path(__file__).parent / "blast"

Result = dict[str, Any]
"""The JSON that blast prints; main.c describes the keys."""


class LoadError(Exception):
    """The load could not be run: blast's message says why."""


@cache
def build(tls: bool = False) -> Path:
    """Return the compiled generator; `tls`: the one that speaks TLS too, which needs OpenSSL's headers."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    program = cache_folder("bench") / f"blast{'-tls' if tls else ''}-{digest}"
    if not program.exists():
        compiler = shutil.which("cc")
        if compiler is None:
            raise LoadError("there is no C compiler to build the load generator (Debian: apt install gcc libc6-dev)")
        files = [str(source) for source in sources if source.suffix == ".c"]
        flags = ["-O2", "-Wall", "-Wextra", "-Wno-sign-compare", "-Werror"]
        libraries = ["-lm"]
        if tls:
            probe = [compiler, "-E", "-include", "openssl/ssl.h", "-x", "c", "/dev/null"]
            if subprocess.run(probe, capture_output=True, check=False).returncode:
                raise LoadError("there are no headers of OpenSSL to build with (Debian: apt install libssl-dev)")
            flags.append("-DWITH_TLS")
            libraries += ["-lssl", "-lcrypto"]
        unfinished = program.with_suffix(f".{os.getpid()}")  # tests that run side by side may each build it
        subprocess.run([compiler, *flags, "-o", str(unfinished), *files, *libraries], check=True)
        unfinished.rename(program)
    return program


def command(broker: BrokerProcess, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a load on a broker and measures the broker's processes."""
    host, port = broker.address()
    pids = ",".join(str(pid) for pid in broker.pids())
    return [str(build("--tls" in arguments)), "--host", host, "--port", str(port), "--pid", pids, *arguments]


def drive(broker: BrokerProcess, arguments: Sequence[str], event: str = "") -> Result:
    """Run blast to its end and return its results; LoadError if it has failed.

    An `event` that perf knows is counted in the broker meanwhile: `counted`, and for each delivery and cycle.
    """
    if not event:
        return finished(subprocess.Popen(command(broker, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    with counting(broker.pids(), event) as counter:
        asked = [*command(broker, arguments), "--perf", str(counter.control)]
        pipe = subprocess.PIPE
        result = finished(subprocess.Popen(asked, stdout=pipe, stderr=pipe, pass_fds=[counter.control]))
        try:
            counted = result["counted"] = counter.total()
        except NotCountedError as error:
            raise LoadError(f"perf: {error}") from None
    result["counted_per_delivery"] = counted / max(1, sum(result["received"]))
    result["counted_per_cycle"] = counted / max(1, result["cycles"])
    return result


def finished(process: subprocess.Popen[bytes]) -> Result:
    """Wait for a blast that was started elsewhere; it limits its own time."""
    with process:
        try:
            output, errors = process.communicate()
        except BaseException:  # a signal ends the run
            process.kill()
            raise
    if process.returncode:
        raise LoadError(errors.decode().strip() or f"blast ended with {process.returncode}")
    result: Result = json.loads(output)
    return result
