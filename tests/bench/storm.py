"""Attackers, and users who want more than they may have, beside a publisher and a subscriber at a fixed rate.

The storms, each by itself and then all of them, run in a process of their own (`tests/bench/storms`):

- `logins`: wrong passwords from several addresses, half of them for names of users that exist (argon2id);
- `half-open`: connections that send nothing, part of a CONNECT or of a TLS handshake, as many again as are ended;
- `quotas`: two users at every quota at once (FC-31);
- `hostile`: a client that reads nothing and acknowledges guessed packet ids, and a session in thousands of groups.

By turns without and with the storm a pair of other clients runs, and other users log in: one who has logged in
before, and new ones. Asserts for each storm that

- the pair does not notice: its p99 is at most one and a half times what it is alone, or a millisecond more;
- nobody else is refused: neither a message of the pair nor a login of the other users;
- the broker's memory grows by no more than ALLOWED says, and why;
- each quota has been reached.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from broker.auth.authenticators import password_hash
from broker.auth.authenticators.users_file import User
from protocol.connack import Connack
from protocol.connect import Connect
from tests.bench import machine, program
from tests.bench.full_address import FACTOR, MORE_US, p99
from tests.bench.generator import Result, command, finished
from tests.bench.grids import Grid, rounded
from tests.bench.run import show_grids
from tests.bench.storms.at_quotas import QUOTAS, REACHED
from tests.bench.storms.plan import ANN, BOB, EVE, PASSWORD, VICTIMS, Plan, victim
from tests.support.broker.admin import request
from tests.support.brokers import HOST, start_sluice
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import Address, BrokerProcess, clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

ROOT: Final = Path(__file__).resolve().parents[2]
KIB: Final = 1024
MIB: Final = 1024 * KIB
NAMES: Final = ("logins", "half-open", "quotas", "hostile")
ALL: Final = "all"
PATIENCE: Final = 120.0
"""Seconds within which a storm has to be at its full strength, and the pair has to end."""
WARM_UP: Final = 10.0
"""Seconds for which the pair runs before anything is measured, at most."""
SAMPLE: Final = 0.1
"""Seconds between two samples of the broker's memory."""
KNOWN: Final = "known"
NEWCOMERS: Final = 500
"""Users who log in once, each from an address of its own."""
BETWEEN: Final = 0.5
"""Seconds between two logins of others."""
IMPATIENT: Final = 10.0
"""Seconds after which a login that has no answer counts as refused."""

ALLOWANCE: Final = 16 * MIB
"""For the allocator, and what any broker that works needs more than one that has just started."""


@dataclass(frozen=True)
class Scenario:
    """How long, and how strong."""

    pair_rate: float
    seconds: float
    rounds: int
    logins: int
    half_open: int
    groups: int
    messages: int

    def plan(self, broker: BrokerProcess) -> Plan:
        """What the storms are told."""
        tcp, tls = broker.address("guarded"), broker.address("tls")
        given = {"logins": self.logins, "half_open": self.half_open, "groups": self.groups}
        return Plan(tcp, tls, messages=self.messages, **given)

    def allowed(self, storm: str) -> int:
        """The most bytes by which the broker may grow, in a storm."""
        each = {
            # argon2id's own memory, of one hash at a time for each thread and processor; 256 logins that wait for it
            # and those whose answer is delayed, up to five seconds, with 16 KiB each; four tables of 10,000 entries.
            "logins": 2 * password_hash.MEMORY * KIB + (256 + 5 * self.logins) * 16 * KIB + 4 * 10_000 * 400,
            # A connection before CONNECT, half of them with a TLS handshake.
            "half-open": self.half_open // 2 * (8 + 56) * KIB,
            # What the quotas say: retained messages and queues of two users, far below a mebibyte each. They log in all
            # the time, which takes argon2id's own memory while it lasts, for each thread.
            "quotas": 4 * MIB + 2 * password_hash.MEMORY * KIB,
            # The guesser: one window and 64 KiB in its transport, and its mqueue of 1,000. Each of the groups: its
            # objects, and its queue of at most 1,000 deliveries that all groups hold together once.
            "hostile": 2 * MIB + self.groups * 16 * KIB,
        }
        return ALLOWANCE + sum(each[name] for name in names_of(storm))


@dataclass
class Visits:
    """Logins of others."""

    codes: dict[str, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """How many were not let in."""
        return sum(number for code, number in self.codes.items() if code != "0x00")

    @property
    def slowest(self) -> float:
        """Seconds."""
        return max(self.seconds, default=0.0)


@dataclass
class Outcome:
    """The results of one storm, or of all."""

    alone: list[Result] = field(default_factory=list)
    beside: list[Result] = field(default_factory=list)
    visits_alone: Visits = field(default_factory=Visits)
    visits: Visits = field(default_factory=Visits)
    done: list[dict[str, dict[str, int]]] = field(default_factory=list)
    """What the storms have done, by storm, in each round."""
    reached: dict[str, int] = field(default_factory=dict)
    rss_before: int = 0
    rss_most: int = 0
    log_bytes: int = 0

    @property
    def grown(self) -> int:
        """Bytes."""
        return self.rss_most - self.rss_before

    @property
    def lost(self) -> int:
        """Messages of the pair, beside the storm."""
        return sum(result["lost"] + result["skipped"] for result in self.beside)


class Others(threading.Thread):
    """Users who log in while the pair runs: by turns one who is known already, and a new one."""

    def __init__(self, address: Address, visits: Visits, numbers: Iterator[int]) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._visits = visits
        self._numbers = numbers
        self._over = threading.Event()

    def run(self) -> None:
        """Log in until it is over."""
        while not self._over.wait(BETWEEN):
            number = next(self._numbers)
            self.visit(newcomer(number % NEWCOMERS), f"127.1.{number // 250 % 250}.{number % 250 + 1}")
            self.visit(KNOWN, "127.0.0.1")

    def visit(self, user: str, source: str) -> None:
        """Log in once, and leave."""
        began = time.monotonic()
        try:
            with WireClient(self._address, 5, source=source, timeout=IMPATIENT) as client:
                client.send(Connect("", True, 0, username=user, password=PASSWORD.encode(), version=5))
                code = f"0x{client.expect(Connack).reason_code:02X}"
        except OSError as error:
            code = type(error).__name__
        self._visits.codes[code] = self._visits.codes.get(code, 0) + 1
        self._visits.seconds.append(time.monotonic() - began)

    def end(self) -> None:
        """It is over."""
        self._over.set()
        self.join()


def names_of(storm: str) -> tuple[str, ...]:
    """The storms that blow at once."""
    return NAMES if storm == ALL else tuple(storm.split("+"))


def newcomer(number: int) -> str:
    """The name of a user who has not logged in yet."""
    return f"new-{number}"


def sections(folder: Path, certificates: Certificates) -> dict[str, Any]:
    """The broker's configuration: a guarded listener with and without TLS, and one for the pair."""
    encoded = password_hash.make(PASSWORD.encode())
    names = [ANN, BOB, EVE, KNOWN, *map(victim, range(VICTIMS)), *map(newcomer, range(NEWCOMERS))]
    users = folder / "users"
    users.write_text("".join(User(name, encoded, ()).line() for name in names))
    server = certificates.server
    guarded = {"bind": f"{HOST}:0", "allow_anonymous": False}
    return {
        "allow_anonymous": None,
        "listeners": [
            {"name": "tcp", "bind": f"{HOST}:0", "allow_anonymous": True},
            {"name": "guarded", **guarded},
            {"name": "tls", **guarded, "tls": {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}},
        ],
        "authentication": {"password_file": str(users)},
        "authorization": {
            "rules": [
                {"permit": "allow", "topics": ["b/#"], "listeners": ["tcp"]},
                {"permit": "allow", "topics": ["#"], "users": [ANN, BOB, EVE]},
            ]
        },
        "quotas": QUOTAS,
        "admin": {"socket": str(folder / "a.sock")},
        "log": {"format": "json"},
    }


def measure(python: str, scenario: Scenario, storm: str) -> Outcome:
    """Run a storm on a fresh broker."""
    places = machine.cores()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = Path(name)
        own = sections(folder, make_certificates(folder))
        with machine.pinned(places.broker):
            broker = start_sluice(folder, (), own, command=(python, "-I", "-m", "broker"))
        with broker, machine.pinned(places.generator):
            return _measure(broker, scenario, storm)


def _measure(broker: BrokerProcess, scenario: Scenario, storm: str) -> Outcome:
    outcome = Outcome()
    names = names_of(storm)
    numbers = count()
    wait_until(lambda: serves(broker), "the admin API", PATIENCE)  # once it is loaded, it takes memory
    shorter = replace(scenario, seconds=min(WARM_UP, scenario.seconds))
    _pair(broker, shorter, outcome, Visits(), numbers)  # afterwards KNOWN is known
    outcome.rss_before = outcome.rss_most = broker.rss()
    for _ in range(scenario.rounds):
        outcome.alone.append(_pair(broker, scenario, outcome, outcome.visits_alone, numbers))
        blowing = start(scenario.plan(broker), names)
        outcome.beside.append(_pair(broker, scenario, outcome, outcome.visits, numbers))
        outcome.done.append(end(blowing))
        outcome.rss_most = max(outcome.rss_most, broker.rss())
    outcome.reached = reached(broker)
    outcome.log_bytes = len(broker.stderr)
    return outcome


def start(plan: Plan, names: Sequence[str]) -> subprocess.Popen[str]:
    """Start storms, after everybody else in the eyes of the scheduler, and wait until they blow."""
    arguments = ["chrt", "--idle", "0", sys.executable, "-m", "tests.bench.storms", plan.text(), *names]
    environment = clean_environment(PYTHONPATH=str(ROOT))
    blowing = subprocess.Popen(
        arguments, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert blowing.stdout is not None
    if blowing.stdout.readline().strip() != "ready":
        raise RuntimeError(f"the storm has ended with {blowing.wait()}")
    return blowing


def end(blowing: subprocess.Popen[str]) -> dict[str, dict[str, int]]:
    """End storms; returns what they have done."""
    output, _ = blowing.communicate(timeout=PATIENCE)
    if blowing.returncode:
        raise RuntimeError(f"the storm has ended with {blowing.returncode}")
    done: dict[str, dict[str, int]] = json.loads(output)
    return done


def _pair(
    broker: BrokerProcess, scenario: Scenario, outcome: Outcome, visits: Visits, numbers: Iterator[int]
) -> Result:
    """Run the pair, and the logins of others."""
    others = Others(broker.address("guarded"), visits, numbers)
    others.start()
    options = ["--mode", "pair", "--publishers", "1", "--qos", "1", "--rate", str(scenario.pair_rate)]
    options += ["--seconds", str(scenario.seconds), "--warmup", "0.5"]
    process = subprocess.Popen(command(broker, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pause = threading.Event()
    while process.poll() is None:
        machine.spread_threads(broker.pid)  # the event loop stays on its core; what hashes passwords need not
        outcome.rss_most = max(outcome.rss_most, broker.rss())
        pause.wait(SAMPLE)
    others.end()
    return finished(process)


def serves(broker: BrokerProcess) -> bool:
    """Whether the admin API answers."""
    try:
        return request(broker.folder / "a.sock", "/metrics").status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False  # it takes long on a busy machine


def reached(broker: BrokerProcess) -> dict[str, int]:
    """How often limits of quotas were reached, by /metrics."""
    found = {}
    for line in request(broker.folder / "a.sock", "/metrics").text.splitlines():
        if line.startswith("sluice_quota_reached_total{"):
            found[line.split('"')[1]] = int(float(line.rpartition(" ")[2]))
    return found


def claims(outcome: Outcome, scenario: Scenario, storm: str) -> dict[str, bool]:
    """What is asserted, and whether it holds."""
    alone, beside = p99(outcome.alone), p99(outcome.beside)
    held = {
        "others do not notice": beside <= max(alone * FACTOR, alone + MORE_US),
        "nobody else is refused": outcome.visits.refused == 0 and outcome.lost == 0,
        "memory is bounded": outcome.grown <= scenario.allowed(storm),
    }
    if "quotas" in names_of(storm):
        held["each quota is reached"] = outcome.reached.keys() >= REACHED
    return held


def table(outcomes: dict[str, Outcome], scenario: Scenario) -> Grid:
    """Return the figures."""
    columns = ["storm", "p99 alone, ms", "p99 beside", "logins refused", "slowest alone, s", "slowest", "lost"]
    columns += ["grown by, MiB", "allowed", "log, KiB"]
    grid = Grid(f"A pair at {scenario.pair_rate:g} messages a second beside a storm", columns)
    for storm, outcome in outcomes.items():
        cells = [rounded(p99(results) / 1000) for results in (outcome.alone, outcome.beside)]
        cells += [f"{outcome.visits.refused} of {len(outcome.visits.seconds)}"]
        cells += [rounded(outcome.visits_alone.slowest), rounded(outcome.visits.slowest), str(outcome.lost)]
        cells += [rounded(outcome.grown / MIB), rounded(scenario.allowed(storm) / MIB)]
        bad = not all(claims(outcome, scenario, storm).values())
        grid.add(storm, *cells, rounded(outcome.log_bytes / KIB), bad=bad)
    return grid


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    storms: Annotated[str, typer.Option(help="Storms, separated by commas; a+b: at once.")] = ",".join((*NAMES, ALL)),
    pair_rate: Annotated[float, typer.Option(min=1, help="Messages a second of the pair.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, help="How long the pair runs, each time.")] = 20.0,
    rounds: Annotated[int, typer.Option(min=1, help="How often it runs alone and beside.")] = 3,
    logins: Annotated[int, typer.Option(min=1, help="Wrong logins a second.")] = 200,
    half_open: Annotated[int, typer.Option(min=1, help="Connections that stay half open.")] = 10_000,
    groups: Annotated[int, typer.Option(min=1, help="Shared subscriptions of one session.")] = 5_000,
    messages: Annotated[int, typer.Option(min=1, help="Messages a second for those who do not read.")] = 100,
) -> None:
    """Measure what others notice of attacks. Exit status 1 if an assertion does not hold."""
    scenario = Scenario(pair_rate, seconds, rounds, logins, half_open, groups, messages)
    outcomes: dict[str, Outcome] = {}
    with Console(stderr=True).status("") as status:
        for storm in storms.split(","):
            if not set(names_of(storm)) <= set(NAMES):
                raise typer.BadParameter(f"--storms: there are {', '.join((*NAMES, ALL))}, not {storm}")
            status.update(storm)
            outcomes[storm] = outcome = measure(sluice, scenario, storm)
            print(f"{storm}: {json.dumps(outcome.done[-1])}; others {outcome.visits.codes}; reached {outcome.reached}")
            for claim, holds in claims(outcome, scenario, storm).items():
                print(f"  {claim}: {'yes' if holds else 'NO'}", flush=True)
    show_grids([table(outcomes, scenario)])
    if not all(all(claims(outcome, scenario, storm).values()) for storm, outcome in outcomes.items()):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
