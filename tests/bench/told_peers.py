"""FlashMQ, NanoMQ and EMQX, which Debian does not have: found on PATH, or where `--flashmq PATH` and so on say."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers import HOST, Candidate, accepting, output_of
from tests.support.process import BrokerProcess, clean_environment, free_port

MANY = 2**28
"""More bytes than any load has under way."""


def flashmq_config(folder: Path, port: int, unlimited: bool, threads: int = 1) -> str:
    """Return flashmq.conf; without storage_dir nothing is kept on disk."""
    lines = [f"listen {{\n  protocol mqtt\n  inet_protocol ip4\n  inet4_bind_address {HOST}\n  port {port}\n}}"]
    lines += ["allow_anonymous true", "log_level warning", f"log_file {folder}/flashmq.log"]
    if threads > 1:
        lines.append(f"thread_count {threads}")
    if unlimited:
        lines += ["max_qos_msg_pending_per_client 65535", f"max_qos_bytes_pending_per_client {MANY}"]
        lines.append(f"client_max_write_buffer_size {MANY}")
    return "\n".join(lines) + "\n"


def nanomq_config(folder: Path, port: int, unlimited: bool) -> str:
    """Return nanomq.conf in the form that NanoMQ has had since 0.19."""
    limit = "mqtt { max_packet_size = 256MB, max_mqueue_len = 65535 }\n" if unlimited else ""
    return (
        f'{limit}listeners.tcp {{ bind = "{HOST}:{port}" }}\n'
        f'log {{ to = [file], level = error, dir = "{folder}", file = "nanomq.log" }}\n'
        "auth { allow_anonymous = true, no_match = allow, deny_action = ignore }\n"
    )


def emqx_environment(folder: Path, port: int, unlimited: bool) -> dict[str, str]:
    """Return the variables that configure EMQX 5: each is a setting, with two underscores for a dot."""
    settings = {
        "node.name": "bench@127.0.0.1",
        "node.cookie": "bench",
        "node.data_dir": str(folder / "data"),
        "listeners.tcp.default.bind": f"{HOST}:{port}",
        **{f"listeners.{kind}.default.enable": "false" for kind in ("ssl", "ws", "wss")},
        "dashboard.listeners.http.bind": "0",
        "log.console.level": "error",
    }
    if unlimited:
        settings |= {
            "mqtt.max_inflight": "65535",
            "mqtt.max_mqueue_len": "infinity",
            "mqtt.max_awaiting_rel": "infinity",
            "force_shutdown.enable": "false",
        }
    variables = {f"EMQX_{name.upper().replace('.', '__')}": value for name, value in settings.items()}
    return variables | {"EMQX_LOG_DIR": str(folder / "log"), "HOME": str(folder)}


def _start_flashmq(program: str, folder: Path, port: int, unlimited: bool, threads: int) -> BrokerProcess:
    file = folder / "flashmq.conf"
    file.write_text(flashmq_config(folder, port, unlimited, threads))
    return BrokerProcess([program, "--config-file", str(file)], folder)


def _start_nanomq(program: str, folder: Path, port: int, unlimited: bool, threads: int) -> BrokerProcess:
    file = folder / "nanomq.conf"
    file.write_text(nanomq_config(folder, port, unlimited))
    return BrokerProcess([program, "start", "--conf", str(file)], folder)


def _start_emqx(program: str, folder: Path, port: int, unlimited: bool, threads: int) -> BrokerProcess:
    for name in ("data", "log"):
        (folder / name).mkdir()
    environment = clean_environment(**emqx_environment(folder, port, unlimited))
    if threads > 1:
        environment["ERL_FLAGS"] = f"+S {threads}:{threads}"
    return BrokerProcess([program, "foreground"], folder, environment)


def _said_version(program: str) -> str:
    number = re.search(r"\d+\.\d+\.\d+", output_of(program, "--version"))
    return number[0] if number else "?"


def _emqx_version(program: str) -> str:
    """What the release says; `emqx` itself needs a running node to answer."""
    file = Path(program).resolve().parents[1] / "releases" / "start_erl.data"
    return file.read_text().split()[-1] if file.exists() else "?"


@dataclass(frozen=True)
class Told:
    """A broker that is found by its program."""

    name: str
    title: str
    version: Callable[[str], str]
    run: Callable[[str, Path, int, bool, int], BrokerProcess]

    def find(self, told: str | None, threads: int = 1) -> Candidate:
        """Return how to start it; `told` is where its program is. Raises LookupError if it is not there."""
        program = shutil.which(told or self.name)
        if program is None:
            where = f"{told} is not a program" if told else f"no {self.name} on PATH"
            raise LookupError(f"{where}; --{self.name} takes the path of {self.title}'s program")

        def start(folder: Path, unlimited: bool) -> BrokerProcess:
            port = free_port()
            return accepting(self.run(str(Path(program).absolute()), folder, port, unlimited, threads), port)

        return Candidate(self.name, f"{self.title} {self.version(program)}", start, threads=threads)


TOLD = (
    Told("flashmq", "FlashMQ", _said_version, _start_flashmq),
    Told("nanomq", "NanoMQ", _said_version, _start_nanomq),
    Told("emqx", "EMQX", _emqx_version, _start_emqx),
)
