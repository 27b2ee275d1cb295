"""The steps of a document, as they are written there: commands in a clone, configurations, and a broker with them."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import yaml

from tests.support.process import Address, BrokerProcess, clean_environment, free_port

COMMAND: Final = ".venv/bin/sluice"


def blocks(text: str, heading: str) -> list[str]:
    """The code blocks of a section."""
    level = heading.partition(" ")[0]
    section = re.split(rf"\n#{{2,{len(level)}}} ", text.partition(f"{heading}\n")[2])[0]
    return re.findall(r"```\w*\n(.*?)```", section, flags=re.DOTALL)


def carry_out(block: str, folder: Path, password: Callable[[str], str]) -> None:
    """Run the commands of a block, but for make; `password`: of each user that `sluice user add` is to ask for."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        told = None
        if words[0] == "make":
            continue
        if words[0] == COMMAND:
            told = password(words[3]).encode() if words[1:3] == ["user", "add"] else None
            words = [sys.executable, "-m", "broker", *words[1:]]
        done = subprocess.run(words, cwd=folder, input=told, check=False, timeout=60)
        assert done.returncode == 0, line


def start(configuration: str, name: str, folder: Path) -> tuple[BrokerProcess, Address]:
    """A broker with a configuration of the document, on a free port in place of 8883."""
    address = Address("localhost", free_port())
    assert yaml.safe_load(configuration)["listeners"][0]["bind"] == "127.0.0.1:8883"
    (folder / name).write_text(configuration.replace("127.0.0.1:8883", f"127.0.0.1:{address.port}"))
    environment = clean_environment(XDG_RUNTIME_DIR=str(folder))
    broker = BrokerProcess(["run", "--config", name], folder, environment, forked_on="asyncio")
    broker.wait_until_accepting(address._replace(host="127.0.0.1"))
    return broker, address
