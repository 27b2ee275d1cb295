"""Every cheap client runs through the quick part of the matrix; `make matrix` runs all of it."""

import os
from collections.abc import Iterator

import pytest

from tests.clients.cases import Case, Surroundings, all_cases, run, why_not
from tests.clients.catalogue import CLIENTS, Client


def quick(client: Client) -> Iterator[Case]:
    """Yield a client's cases: bursts of 1,000 of QoS 1 and 2 over TCP, and much in one version or transport."""
    newest = max(client.versions)
    for case in all_cases():
        if why_not(client, case) or case.count > 1_000:
            continue
        once = case.kind in ("retained", "shared", "burst-in") or case.listener == "mutual"
        if once and case.version != newest:
            continue
        if case.count and len(client.versions) == 2 and case.version != 5:
            continue
        if case.count and (case.listener == "tls" or case.qos == 0):
            continue
        yield case


def marks(client: Client, case: Case) -> list[pytest.MarkDecorator]:
    """A client gets the same packets, compiled or not: one case of each runs compiled too."""
    plain = case.kind == "exchange" and case.listener == "tcp" and case.version == max(client.versions)
    return [] if plain else [pytest.mark.once]


TABLE = [
    pytest.param(client, case, id=f"{client.name}-{case.name}", marks=marks(client, case))
    for client in CLIENTS.values()
    if not client.heavy
    for case in quick(client)
]


@pytest.mark.parametrize(("client", "case"), TABLE)
def test_client(around: Surroundings, client: Client, case: Case) -> None:
    """A client with its own defaults passes with the broker's defaults; missing clients are skipped, but not in CI."""
    missing = client.missing()
    if missing and not os.environ.get("CI"):
        pytest.skip(missing)
    assert not missing
    run(client, case, around)
