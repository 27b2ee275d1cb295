"""mosquitto_pub and mosquitto_sub: the command line clients."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.clients.exchange import KEPT, TIMEOUT, Outcome, Plan, Received

COMMANDS = ("mosquitto_pub", "mosquitto_sub")


def missing() -> str:
    """Say what is not installed; empty if nothing."""
    absent = [command for command in COMMANDS if shutil.which(command) is None]
    return f"{' and '.join(absent)} not installed (Debian: mosquitto-clients)" if absent else ""


def run(plan: Plan) -> Outcome:
    """Carry out the exchange."""
    count = len(plan.messages()) + 1
    with _subscriber(plan, count) as output:
        for topic, payload in plan.messages():
            _publish(plan, topic, payload)
        _publish(plan, plan.kept_topic, KEPT, "-r")
        live = _messages(output)
    with _subscriber(plan, 1) as output:
        retained = _messages(output)
    _publish(plan, plan.kept_topic, b"", "-r")
    return Outcome(live, retained)


def _options(plan: Plan) -> list[str]:
    options = ["-h", plan.address.host, "-p", str(plan.address.port), "-q", str(plan.qos)]
    options += ["-V", "mqttv5" if plan.version == 5 else "mqttv311"]
    if plan.tls:
        options += ["--cafile", plan.tls.cafile]
        if plan.tls.certificate:
            options += ["--cert", str(plan.tls.certificate.certfile)]
            options += ["--key", str(plan.tls.certificate.keyfile)]
    return options


def _publish(plan: Plan, topic: str, payload: bytes, *more: str) -> None:
    command = ["mosquitto_pub", *_options(plan), "-t", topic, *more, "-s" if payload else "-n"]
    subprocess.run(command, input=payload, check=True, timeout=TIMEOUT)


@contextmanager
def _subscriber(plan: Plan, count: int) -> Iterator[IO[str]]:
    """A subscriber that ends by itself after `count` messages; the block begins when it has its SUBACK."""
    line = r"message %q %r %x %t"
    command = ["mosquitto_sub", *_options(plan), "-t", plan.topic_filter, "-C", str(count), "-F", line]
    # -d makes it say when it is subscribed; stdbuf, that it says so at once.
    command = ["stdbuf", "-oL", *command, "-d", "-W", f"{TIMEOUT:.0f}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any(said.startswith("Subscribed ") for said in iter(process.stdout.readline, ""))
            yield process.stdout
        finally:
            process.terminate()


def _messages(output: IO[str]) -> list[Received]:
    lines = [line.rstrip("\n").split(" ", 4)[1:] for line in output if line.startswith("message ")]
    return [Received(topic, bytes.fromhex(data), int(qos), retain == "1") for qos, retain, data, topic in lines]
