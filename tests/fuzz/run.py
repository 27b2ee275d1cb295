"""A run of the fuzzer over one target: guided by coverage if atheris is there, blind otherwise."""

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.fuzz import blind
from tests.fuzz.progress import Progress
from tests.fuzz.target import Target, seeds, write_seed

ROOT: Final = Path(__file__).resolve().parents[2]
WORK: Final = ROOT / ".cache" / "fuzz"
"""Inputs that have reached new code, from one run to the next."""
FLAGS: Final = ("-timeout=1200", "-report_slow_units=1200", "-rss_limit_mb=2048", "-print_final_stats=0")
"""The times are for what no signal of Python's interrupts: libFuzzer's clock goes on while the process is stopped."""


def run(target: Target, seconds: float, seed: int) -> Path | None:
    """Fuzz for some time; returns the file of an input that fails, if one is found."""
    found = _guided(target, seconds, seed) if guided() else _blind(target, seconds, seed)
    return None if found is None else _keep(target, found)


def guided() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def _blind(target: Target, seconds: float, seed: int) -> bytes | None:
    print(f"{target.name}: blind, as atheris is not installed; seed {seed}")
    progress = Progress(target.name)
    try:
        blind.fuzz(target, seconds, seed, progress.count)
    except blind.FailureError as failure:
        traceback.print_exception(failure.__cause__)
        return failure.data
    finally:
        progress.tell()
    return None


def _guided(target: Target, seconds: float, seed: int) -> bytes | None:
    work = WORK / target.name
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sluice-fuzz-") as folder:
        kept = Path(folder) / "seeds"
        kept.mkdir()
        for name, data in seeds(target).items():
            (kept / name).write_bytes(data)
        flags = (f"-max_total_time={seconds:.0f}", f"-seed={seed}", f"-max_len={target.most_bytes}")
        command = [sys.executable, "-m", "tests.fuzz.guided", target.name, *FLAGS, *flags]
        command += [f"-artifact_prefix={folder}/", str(work), str(kept)]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, errors="replace")
        with process:
            assert process.stderr is not None
            try:
                _follow(process.stderr, Progress(target.name))
            except KeyboardInterrupt:
                process.terminate()
                raise
        for path in Path(folder).glob("*-*"):
            print(f"libFuzzer calls it a {path.name.partition('-')[0]}")
            return path.read_bytes()
        if process.returncode > 0:
            raise RuntimeError(f"the fuzzer has ended with {process.returncode} and left no input")
    return None


def _follow(lines: Iterable[str], progress: Progress) -> None:
    """Tell the progress, and pass on the traceback or what libFuzzer has to complain of, not all that is around it."""
    telling = False
    for line in lines:
        text = line.rstrip()
        if progress.read(text):
            continue
        if "Uncaught Python exception" in text or "ERROR: libFuzzer" in text:
            telling = True
        elif text.startswith(("==", "artifact_prefix", "MS:")):
            telling = False
        if telling:
            print(text)
    progress.tell()


def _keep(target: Target, data: bytes) -> Path:
    """Make an input that fails as small as it gets, and keep it with the seeds."""
    smaller = blind.reduce(target, data)
    name = f"found-{hashlib.sha256(smaller).hexdigest()[:8]}"
    path = write_seed(target, name, smaller, _why(target, smaller))
    print(f"kept in {path.relative_to(ROOT)}; to see it again: make fuzz ARGS=\"--replay {path.relative_to(ROOT)}\"")
    return path


def _why(target: Target, data: bytes) -> str:
    try:
        target.check(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "It has failed once, but does not always."
