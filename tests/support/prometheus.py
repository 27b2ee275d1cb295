"""Starts Prometheus, and asks it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.broker.admin import request
from tests.support.process import Address, free_port


@contextmanager
def prometheus(file: Path, folder: Path) -> Iterator[Address]:
    """A Prometheus with this configuration, until the block ends."""
    where = Address("127.0.0.1", free_port())
    options = {
        "config.file": file,
        "storage.tsdb.path": folder / "tsdb",
        "web.listen-address": f"{where.host}:{where.port}",
    }
    with (folder / "prometheus.log").open("wb") as log:
        command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield where
        finally:
            process.terminate()
            process.wait(30)


def values(where: Address, query: str) -> list[str]:
    """What a query finds; nothing while Prometheus does not answer."""
    try:
        answer = request(where, f"/api/v1/query?{urlencode({'query': query})}").json
    except (ConnectionError, ValueError):
        return []
    return [each["value"][1] for each in answer["data"]["result"]]


def health(where: Address) -> list[str]:
    """How the last evaluation of each rule went."""
    groups = request(where, "/api/v1/rules").json["data"]["groups"]
    return [rule["health"] for group in groups for rule in group["rules"]]


def alerts(where: Address) -> set[str]:
    """The alerts that wait or fire."""
    return {each["labels"]["alertname"] for each in _alerts(where)}


def firing(where: Address, instance: str) -> set[str]:
    """The alerts that fire about an instance."""
    fire = [each["labels"] for each in _alerts(where) if each["state"] == "firing"]
    return {labels["alertname"] for labels in fire if labels["instance"] == instance}


def _alerts(where: Address) -> list[Any]:
    found: list[Any] = request(where, "/api/v1/alerts").json["data"]["alerts"]
    return found
