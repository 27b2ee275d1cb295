"""The tests lie where the code does: a folder for each room of the broker, and in it a file for each module."""

from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.once

ROOT: Final = Path(__file__).parent.parent
BROKER: Final = ROOT / "broker"

TESTED_WITH: Final = {
    "broker": "by everything that starts one",
    "clients": "test_sessions.py",
    "events": "connection/test_log.py",
    "totals": "telemetry/test_sys_topics_sums.py",
    "addresses/paging/segment": "addresses/paging/test_queue.py",
    "admin/addresses": "admin/test_sessions.py",
    "admin/client": "admin/test_socket.py",
    "admin/groups": "admin/test_sessions.py",
    "admin/listing": "admin/test_scan.py",
    "admin/server": "admin/test_requests.py",
    "auth/method": "auth/test_scram.py",
    "connection/connections": "server/test_shutdown.py",
    "connection/handlers": "by everything that starts one",
    "cli/options": "cli/test_main.py",
    "cli/top/keys": "cli/top/test_output.py",
    "routing/filter_tree": "routing/test_router.py",
    "routing/messages": "routing/test_router_delivery.py",
    "routing/receivers": "routing/test_router.py",
    "runtime/clock": "by everything",
    "runtime/endpoint": "connection/test_client_socket_reading.py",
    "server/logs": "server/test_server.py",
    "server/tls_failures": "server/test_tls_handshake.py",
    "storage/disk_thread": "addresses/paging/test_paging_disk_faults.py",
    "storage/kept_queue": "storage/test_compaction.py",
    "storage/message": "storage/test_compaction.py",
    "storage/storage": "storage/test_compaction.py",
    "storage/saved": "storage/test_compaction.py",
    "storage/kept_session": "storage/test_compaction.py",
    "telemetry/collector": "telemetry/test_exporter.py",
    "telemetry/wall": "telemetry/test_schema.py",
}
"""Modules without a test file of their own, and where they are tested."""


def _modules() -> set[str]:
    files = (path.relative_to(BROKER) for path in BROKER.rglob("*.py") if not path.name.startswith("__"))
    return {file.with_suffix("").as_posix() for file in files}


def _module_of(test: Path) -> str | None:
    """The module that a test file is named after: `test_MODULE.py` or `test_MODULE_aspect.py`, in its room."""
    room = test.relative_to(ROOT / "tests" / "broker").parent.as_posix().removeprefix(".")
    name = test.stem.removeprefix("test_")
    names = [module for module in _modules() if module.rpartition("/")[0] == room]
    fitting = [module for module in names if f"{name}_".startswith(f"{module.rpartition('/')[2]}_")]
    return max(fitting, key=len, default=None)


def test_each_test_file_is_named_after_a_module() -> None:
    """Who knows the module finds its tests, and the other way round."""
    tests = sorted((ROOT / "tests" / "broker").rglob("test_*.py"))
    assert [str(test.relative_to(ROOT)) for test in tests if _module_of(test) is None] == []


def test_each_module_has_its_tests() -> None:
    """A module without a test file of its own is on the list that says where it is tested."""
    tested = {_module_of(test) for test in (ROOT / "tests" / "broker").rglob("test_*.py")}
    assert _modules() - tested == set(TESTED_WITH)
    assert [where for where in TESTED_WITH.values() if not where.startswith("by ") and not _there(where)] == []


def _there(test: str) -> bool:
    return (ROOT / "tests" / "broker" / test).exists()
