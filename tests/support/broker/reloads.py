"""Changes the configuration of a running broker, and has it reload."""

from typing import Any

import yaml

from tests.support.broker.admin import request
from tests.support.process import BrokerProcess


def rewrite(broker: BrokerProcess, **sections: dict[str, object] | list[object]) -> None:
    """Change keys of sections in the broker's file, and replace lists."""
    file = broker.folder / "sluice.yaml"
    written = yaml.safe_load(file.read_text())
    for name, keys in sections.items():
        written[name] = (written.get(name) or {}) | keys if isinstance(keys, dict) else keys
    file.write_text(yaml.safe_dump(written))


def reload(broker: BrokerProcess) -> Any:
    """The answer to a reload, of a broker whose admin socket is a.sock in its folder."""
    return request(broker.folder / "a.sock", "/api/v1/reload", "POST")
