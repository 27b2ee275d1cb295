"""A broker with users, roles and quotas."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.logins import sections, write_users
from tests.support.broker.quotas import PASSWORDS, ROLES
from tests.support.process import BrokerProcess

RunQuotas = Callable[..., BrokerProcess]


@pytest.fixture
def run(start: Start, tmp_path: Path) -> RunQuotas:
    """Start a broker with users, their roles and these quotas; anonymous clients are let in too."""

    def run_one(*quotas: dict[str, Any], **more: Any) -> BrokerProcess:
        users = write_users(tmp_path / "users", PASSWORDS, ROLES)
        own = {"quotas": list(quotas), "admin": {"socket": "a.sock"}, "mqtt": {"sys_interval": "100ms"}, **more}
        broker = start(sections=sections(users, **own) | {"allow_anonymous": True})
        wait_for_event(broker, "admin_socket")
        return broker

    return run_one
