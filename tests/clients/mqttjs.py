"""MQTT.js under Node, by way of mqttjs.cjs beside this file."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.clients.exchange import KEPT, TIMEOUT, Outcome, Plan, Received
from tests.support.node import install

PACKAGE = "mqtt@5.16.0"
SCRIPT = Path(__file__).with_suffix(".cjs")


def missing() -> str:
    """Say what is not installed; empty if nothing. MQTT.js itself is fetched by npm."""
    absent = [command for command in ("node", "npm") if shutil.which(command) is None]
    return f"{' and '.join(absent)} not installed (Debian: nodejs, npm)" if absent else ""


def run(plan: Plan) -> Outcome:
    """Carry out the exchange."""
    environment = os.environ | {"NODE_PATH": str(install(PACKAGE))}
    result = subprocess.run(
        ["node", str(SCRIPT)],
        input=json.dumps(_described(plan)),
        capture_output=True,
        env=environment,
        text=True,
        timeout=2 * TIMEOUT,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    return Outcome(_received(outcome["live"]), _received(outcome["retained"]))


def _described(plan: Plan) -> dict[str, Any]:
    tls: dict[str, str] | None = None
    if plan.tls:
        tls = {"cafile": plan.tls.cafile}
        if plan.tls.certificate:
            tls["certfile"] = str(plan.tls.certificate.certfile)
            tls["keyfile"] = str(plan.tls.certificate.keyfile)
    return {
        "host": plan.address.host,
        "port": plan.address.port,
        "tls": tls,
        "version": plan.version,
        "qos": plan.qos,
        "filter": plan.topic_filter,
        "messages": [(topic, _text(payload)) for topic, payload in plan.messages()],
        "keptTopic": plan.kept_topic,
        "kept": _text(KEPT),
        "timeout": TIMEOUT * 1000,
    }


def _text(payload: bytes) -> str:
    return base64.b64encode(payload).decode("ascii")


def _received(messages: list[dict[str, Any]]) -> list[Received]:
    return [Received(m["topic"], base64.b64decode(m["payload"]), m["qos"], m["retain"]) for m in messages]
