"""Users with roles, for tests of quotas, and what a broker says of quotas that were reached."""

from typing import Final

from tests.support.broker.admin import request
from tests.support.broker.real_clients import Paho
from tests.support.process import BrokerProcess

PASSWORDS: Final = {"ann": "a", "ben": "b", "eve": "e"}
ROLES: Final[dict[str, tuple[str, ...]]] = {"ann": ("sensor",), "ben": ("sensor",), "eve": ("gateway",)}
QUOTA_EXCEEDED: Final = 0x97
VERSIONS: Final = [4, 5]


def client(broker: BrokerProcess, version: int, client_id: str, user: str = "", kept: bool = False) -> Paho:
    """paho as one of the users, or anonymous."""
    return Paho(broker.address(), version, client_id, user, PASSWORDS.get(user, ""), kept)


def reached(broker: BrokerProcess, key: str) -> int:
    """How often a limit was reached, by /metrics."""
    text = request(broker.folder / "a.sock", "/metrics").text
    start = f'sluice_quota_reached_total{{quota="{key}"}} '
    return sum(int(float(line.removeprefix(start))) for line in text.splitlines() if line.startswith(start))
