"""The brokers of a comparison: Sluice, installed and from the sources, a prototype if one is named, and the peers."""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from tests.bench import earlier, peers, ruled
from tests.bench.peers import Candidate, output_of
from tests.bench.told_peers import TOLD, Told
from tests.bench.watched import SECTIONS, scraped, watched
from tests.support.brokers import HOST, TCP_ONLY, Listener, start_sluice
from tests.support.cache import ROOT, cache_folder
from tests.support.certificates import make_certificates
from tests.support.process import Address, BrokerProcess, clean_environment, free_port

PACKAGES = ("protocol", "session", "broker", "config", "spark_jobs")

UNLIMITED = {
    "session": {
        "max_inflight": "infinity",
        "max_mqueue_len": "infinity",
        "max_mqueue_bytes": "infinity",
        "receive_maximum": 65535,
        "max_awaiting_rel": "infinity",
    }
}
"""Sluice without limits that a load would reach; the other brokers are started in the same way."""

LIMITS = (
    "Every broker is started without limits of its own on messages in flight and queued, does not persist to disk "
    "(NATS does, for QoS 1) and does not log messages."
)


@dataclass(frozen=True)
class Sources:
    """Where brokers that are not installed come from; None: not wanted, or this interpreter's."""

    sluice: str | None = None
    before: str | None = None
    amqtt: str | None = None
    prototype: Path | None = None
    rules: int = 0
    """Of a second Sluice, which has so many, and a user for each client; 0: it is not wanted."""
    programs: Mapping[str, str | None] = field(default_factory=dict)
    """Of brokers of `told_peers`, by name; looked for on PATH if it does not say."""
    watched: bool = False
    """Whether Sluice is measured once more, while operators look at it."""
    workers: int = 1
    """Of one more Sluice; brokers that can be told get as many threads."""


@dataclass
class Found:
    """The brokers that can be measured, and the reasons why others cannot."""

    candidates: list[Candidate] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def names(sources: Sources) -> list[str]:
    """Return the names of all known brokers, in the order of the columns."""
    return list(_finders(sources))


def find(wanted: list[str], sources: Sources, scratch: Path) -> Found:
    """Look for the wanted brokers."""
    found = Found()
    for name, finder in _finders(sources).items():
        if name in wanted:
            try:
                found.candidates.append(finder(scratch))
            except (LookupError, OSError, subprocess.SubprocessError) as error:
                found.missing[name] = str(error)
    return found


def _finders(sources: Sources) -> dict[str, Callable[[Path], Candidate]]:
    finders: dict[str, Callable[[Path], Candidate]] = {
        "sluice": lambda scratch: find_sluice(sources.sluice or sys.executable),
        "sluice-interpreted": find_sluice_sources,
    }
    if sources.watched:
        for how in (scraped, watched):
            finders[f"sluice-{how.__name__}"] = partial(find_watched, sources.sluice or sys.executable, how)
    if sources.workers > 1:
        finders["sluice-workers"] = lambda scratch: find_workers(sources.sluice or sys.executable, sources.workers)
    if sources.rules:
        finders[ruled.NAME] = lambda scratch: find_ruled(sources.sluice or sys.executable, sources.rules)
    if sources.before:
        finders["sluice-before"] = lambda scratch: find_before(sources.before or "")
    if sources.prototype:
        finders["prototype"] = partial(find_prototype, sources.prototype, True)
        finders["prototype-interpreted"] = partial(find_prototype, sources.prototype, False)
    return finders | {
        "mosquitto": lambda scratch: peers.find_mosquitto(),
        "nats": lambda scratch: peers.find_nats(sources.workers),
        "aedes": lambda scratch: peers.find_aedes(),
        "amqtt": lambda scratch: peers.find_amqtt(sources.amqtt),
        **{told.name: partial(_find_told, told, sources) for told in TOLD},
    }


def _find_told(told: Told, sources: Sources, scratch: Path) -> Candidate:
    return told.find(sources.programs.get(told.name), sources.workers)


def find_sluice(
    python: str,
    name: str = "sluice",
    sections: Callable[[Path], Mapping[str, object]] | None = None,
    revision: str = "",
    workers: int = 1,
) -> Candidate:
    """Sluice as it is installed in an environment, compiled if its wheel is.

    `sections`: of its configuration. `revision`: what it was built from; the Python's path is shown without it.
    """
    script = "import importlib.metadata as m, protocol.decoder as d; print(m.version('sluice-mqtt'), d.__file__)"
    version, _, file = output_of(python, "-I", "-c", script).partition(" ")
    if not file.startswith("/"):
        raise LookupError(f"not installed in {python} (make install)")
    how = "interpreted" if file.endswith(".py") else "compiled"

    def start(folder: Path, unlimited: bool, on: Sequence[Listener] = TCP_ONLY) -> BrokerProcess:
        # -I: neither PYTHONPATH nor the working directory decides what runs, only the installation.
        command = (python, "-I", "-m", "broker")
        own: dict[str, object] = dict(UNLIMITED) if unlimited else {}
        if sections is not None:
            own |= sections(folder)
        return start_sluice(folder, on, own, command=command, workers=workers)

    built = f"Sluice {version}, {how}"
    if revision or python != sys.executable:
        built += f", {revision or python}"
    return Candidate(name, built, start, partial(_over_tls, start), threads=workers)


def find_workers(python: str, workers: int) -> Candidate:
    """The same Sluice with so many workers."""
    found = find_sluice(python, "sluice-workers", workers=workers)
    return replace(found, version=f"{found.version}, {workers} workers")


def find_watched(python: str, how: Callable[[Candidate], Candidate], scratch: Path) -> Candidate:
    """The same Sluice while it is looked at; `how`: `scraped` or `watched`."""
    return how(find_sluice(python, f"sluice-{how.__name__}", lambda folder: SECTIONS))


def find_ruled(python: str, rules: int) -> Candidate:
    """The same Sluice with so many rules, and a user for each client."""
    found = find_sluice(python, ruled.NAME, partial(ruled.sections, rules))
    return replace(found, version=f"{found.version}, {rules:,} rules", arguments=("--users", ruled.USER))


def find_before(name: str, sections: Callable[[Path], Mapping[str, object]] | None = None) -> Candidate:
    """Sluice of a revision, or of another Python, beside the one that is measured."""
    python = earlier.python_of(name, lambda message: print(message, file=sys.stderr))
    revision = "" if python == name else f"{name} ({earlier.commit_of(name)[:12]})"
    return find_sluice(python, "sluice-before", sections, revision)


def find_sluice_sources(scratch: Path) -> Candidate:
    """Sluice from the repository's Python files, copied so that compiled modules beside them are not used."""
    for package in PACKAGES:
        target = scratch / "sources" / package
        shutil.copytree(ROOT / package, target, ignore=shutil.ignore_patterns("*.so", "__pycache__"))

    def start(folder: Path, unlimited: bool, on: Sequence[Listener] = TCP_ONLY) -> BrokerProcess:
        environment = {"PYTHONPATH": str(scratch / "sources")}
        return start_sluice(folder, on, UNLIMITED if unlimited else {}, env=environment)

    return Candidate("sluice-interpreted", "Sluice, sources, interpreted", start, partial(_over_tls, start))


class _Start(Protocol):
    def __call__(self, folder: Path, unlimited: bool, on: Sequence[Listener]) -> BrokerProcess: ...


def _over_tls(start: _Start, folder: Path, unlimited: bool) -> BrokerProcess:
    """Start with a certificate of its own, and with a TLS listener only."""
    return start(folder, unlimited, (Listener("tcp", make_certificates(folder)),))


def _check_prototype(file: Path, source: bytes) -> None:
    if not file.stem.isidentifier():
        raise LookupError(f"{file.name} cannot be imported: give it a name of letters, digits and _, that ends in .py")
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise LookupError(f"{file} is not Python: {error}") from None
    if not any(isinstance(each, ast.FunctionDef) and each.name == "go" for each in module.body):
        raise LookupError(f"{file} has no function go(port), which serves clients on that port of {HOST}")


def find_prototype(file: Path, compiled: bool, scratch: Path) -> Candidate:
    """A single-file experiment with a function go(port), compiled or not. Raises LookupError if it is none."""
    source = file.read_bytes()
    _check_prototype(file, source)
    kind = "compiled" if compiled else "interpreted"
    folder = cache_folder("bench", f"{file.stem}-{hashlib.sha256(source).hexdigest()[:16]}-{kind}")
    copy = folder / file.name
    if not copy.exists():
        copy.write_bytes(source)
    if compiled and not list(folder.glob(f"{file.stem}.*.so")):
        environment = os.environ | {"PYTHONPATH": ""}
        command = [sys.executable, "-m", "mypyc", copy.name]
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)

    def start(scratch_folder: Path, unlimited: bool) -> BrokerProcess:
        address = Address(HOST, free_port())
        script = f"import {file.stem}; {file.stem}.go({address.port})"
        environment = clean_environment(PYTHONPATH=str(folder))
        broker = BrokerProcess([sys.executable, "-c", script], scratch_folder, environment)
        broker.listeners = {"tcp": address}
        broker.wait_until_accepting(address)
        return broker

    return Candidate("prototype" if compiled else "prototype-interpreted", f"{file.stem}, {kind}", start)
