"""The tests of the packages are where the code is: a folder for each room, and in it a file for each module."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.once

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("broker", "session", "protocol", "config")

TESTED_WITH: Final = {
    "broker/broker": "by everything that starts one",
    "broker/visit": "broker/server/test_reload.py",
    "broker/totals": "broker/telemetry/test_sys_topics_sums.py",
    "broker/auth/bridge_state": "broker/auth/test_authorizer_bridges.py",
    "broker/runtime/network": "broker/connection/test_connection_rate.py",
    "broker/server/admin_api": "by everything that asks",
    "protocol/replies": "broker/connection/test_connection_reason_strings.py",
    "broker/runtime/barrier": "broker/cluster/test_crossings.py",
    "broker/routing/topic_cache": "broker/routing/test_router_cache.py",
    "broker/admin/addresses": "broker/admin/test_sessions.py",
    "broker/admin/groups": "broker/admin/test_sessions.py",
    "broker/admin/listing": "broker/admin/test_list_pages.py",
    "broker/admin/clients": "broker/admin/api/test_lists.py",
    "broker/admin/managed": "by everything that asks",
    "broker/admin/retained": "broker/admin/api/test_lists.py",
    "broker/admin/rows": "broker/admin/test_sessions.py",
    "broker/admin/subscriptions": "broker/admin/api/test_lists.py",
    "broker/admin/dashboard/moment": "broker/admin/api/test_dashboard.py",
    "broker/admin/dashboard/observer": "broker/admin/api/test_dashboard.py",
    "broker/admin/api/deadlines": "broker/admin/test_server.py",
    "broker/admin/api/problem": "broker/admin/api/test_app.py",
    "broker/admin/api/load": "broker/admin/test_server.py",
    "broker/auth/authenticators/authenticator": "broker/auth/authenticators/test_chain.py",
    "broker/auth/authenticators/authenticators": "broker/auth/authenticators/test_password_file.py",
    "broker/auth/authenticators/grant": "broker/auth/authenticators/test_http.py",
    "broker/auth/authenticators/outage": "broker/auth/authenticators/test_http.py",
    "broker/auth/authenticators/passwords": "broker/auth/authenticators/test_password_file.py",
    "broker/auth/plugins/authenticator": "broker/auth/plugins/test_loading.py",
    "broker/auth/plugins/authorizer": "broker/auth/plugins/test_loading.py",
    "broker/auth/identity": "broker/auth/authenticators/test_chain.py",
    "broker/auth/permissions": "broker/auth/test_rules.py",
    "broker/auth/rule_files/rule_files": "broker/auth/rule_files/test_rules_file.py",
    "broker/auth/authenticators/failures": "broker/auth/authenticators/test_guard.py",
    "broker/auth/method": "broker/auth/test_scram.py",
    "broker/bridge/client_side": "broker/bridge/test_bridge.py",
    "broker/bridge/outgoing": "broker/bridge/test_bridge.py",
    "broker/bridge/local_session": "broker/bridge/test_bridges.py",
    "broker/bridge/status": "broker/bridge/test_bridge.py",
    "broker/bridge/dial": "broker/bridge/test_bridge_transports.py",
    "broker/bridge/websocket": "broker/bridge/test_bridge_transports.py",
    **dict.fromkeys(
        (
            "broker/cluster/home_cells",
            "broker/cluster/from_cells",
            "broker/cluster/cell_link",
            "broker/cluster/link_side",
            "broker/cluster/cell_links",
            "broker/cluster/controls",
            "broker/cluster/held_publishers",
            "broker/cluster/link_controls",
            "broker/cluster/link_pressure",
            "broker/cluster/link_writer",
            "broker/cluster/remote_publishers",
            "broker/routing/other_cells",
            "broker/connection/homes",
            "broker/server/alone",
            "broker/server/channel",
            "broker/server/keeper",
            "broker/server/membership",
        ),
        "broker/cluster/test_cells.py",
    ),
    **dict.fromkeys(
        (
            "broker/connection/host_limits",
            "broker/connection/turns",
            "broker/server/asked_guard",
            "broker/server/asked_limits",
            "broker/server/host_counts",
            "broker/server/questions",
        ),
        "broker/cluster/test_cells_limits.py",
    ),
    **dict.fromkeys(
        ("broker/server/asked_totals", "broker/telemetry/host_totals"),
        "broker/cluster/test_cells_sys_topics.py",
    ),
    **dict.fromkeys(
        (
            "broker/admin/cell_links",
            "broker/admin/host/app",
            "broker/admin/host/forwarding",
            "broker/admin/host/merged_lists",
            "broker/admin/host/merged_metrics",
            "broker/admin/host/merging",
            "broker/admin/host/start",
        ),
        "broker/admin/host/test_views.py",
    ),
    "broker/admin/host/managed_host": "by everything that asks",
    "broker/admin/host/all_cells": "broker/admin/host/test_asking.py",
    "broker/admin/host/merged_moments": "broker/admin/host/test_streams.py",
    "broker/admin/host/merged_traces": "broker/admin/host/test_streams.py",
    "broker/server/host_admin": "broker/admin/host/test_actions.py",
    "broker/resharding/old_journal": "broker/resharding/test_reshard.py",
    "broker/resharding/new_journals": "broker/resharding/test_moves.py",
    "broker/resharding/progress": "broker/resharding/test_reshard.py",
    **dict.fromkeys(
        (
            "broker/cluster/remote_members",
            "broker/cluster/remote_groups",
            "broker/cluster/group_controls",
            "broker/routing/group_members",
        ),
        "broker/cluster/test_cells_groups.py",
    ),
    "config/cluster_rules": "config/test_cluster.py",
    "broker/bridge/packet_ids": "broker/bridge/test_bridge.py",
    "broker/connection/side": "broker/connection/test_server_side_malformed.py",
    "broker/connection/aliases": "broker/connection/test_publishing_aliases.py",
    "broker/connection/peer": "by everything that starts one",
    "broker/connection/handlers": "by everything that starts one",
    "broker/admin/api/audit": "broker/admin/api/test_actions.py",
    "broker/admin/api/overview": "broker/admin/api/test_actions.py",
    "broker/admin/api/reloading": "broker/server/test_reload.py",
    "broker/admin/trace/tap": "broker/admin/api/test_tracing.py",
    "broker/admin/trace/watched": "broker/admin/api/test_tracing.py",
    "broker/admin/api/metrics": "broker/admin/test_prometheus.py",
    "broker/cli/checking": "broker/server/test_certificate_dates.py",
    "broker/cli/import_output": "broker/cli/test_importing.py",
    "broker/cli/store_figures": "broker/cli/test_store.py",
    "broker/cli/socket": "broker/cli/top/test_command.py",
    "broker/cli/options": "broker/cli/test_main.py",
    "broker/cli/top/keys": "broker/cli/top/test_output.py",
    "broker/quota": "broker/quotas/test_quotas.py",
    "broker/quotas/retained_guard": "broker/quotas/test_quotas.py",
    "broker/routing/filter_tree": "broker/routing/test_router.py",
    "broker/routing/messages": "broker/routing/test_router_delivery.py",
    "broker/routing/receivers": "broker/routing/test_router.py",
    "broker/routing/retained_message": "broker/routing/test_retained.py",
    "broker/runtime/clock": "by everything",
    "broker/runtime/endpoint": "broker/runtime/test_read_gate.py",
    "broker/runtime/socket": "broker/connection/test_client_socket_closing.py",
    "broker/server/logs": "broker/server/test_server.py",
    "broker/server/tls_failures": "broker/server/test_tls_handshake.py",
    "broker/storage/kept_state": "broker/storage/test_kept_queue.py",
    "broker/storage/kept_will": "broker/test_absent_wills.py",
    "broker/storage/errors": "broker/storage/test_segments.py",
    "broker/storage/found": "broker/storage/test_segments.py",
    "broker/storage/fsync": "durability/test_powercuts.py",
    "broker/storage/sqlite_journal": "broker/storage/test_making.py",
    "broker/runtime/origin": "broker/server/test_proxy_header.py",
    "broker/storage/mosquitto_db/chunks": "broker/storage/mosquitto_db/test_contents_damage.py",
    "broker/storage/mosquitto_db/unreleased": "broker/cli/test_mosquitto_state.py",
    "broker/storage/mosquitto_db/writing": "broker/cli/test_mosquitto_state.py",
    "broker/storage/restorer": "broker/test_recovery.py",
    "broker/storage/owner": "broker/storage/test_records.py",
    "broker/storage/kept_address": "broker/addresses/test_pages.py",
    "broker/storage/lane_rule": "broker/test_clients_flows.py",
    "broker/storage/message": "broker/storage/test_compaction.py",
    "broker/storage/storage": "broker/storage/test_compaction.py",
    "broker/storage/reading_back": "broker/telemetry/test_drop_events.py",
    "broker/storage/reader": "broker/storage/test_kept_queue.py",
    "broker/storage/saved": "broker/storage/test_compaction.py",
    "broker/storage/saved_message": "broker/storage/test_message_record.py",
    "broker/storage/kept_session": "broker/storage/test_compaction.py",
    "broker/telemetry/collector": "broker/telemetry/test_exporter.py",
    "broker/telemetry/interval_row": "spark_jobs/datasets/test_datasets.py",
    "broker/telemetry/slices": "broker/admin/test_list_pages.py",
    "broker/listener_sums": "broker/telemetry/test_sys_topics_sums.py",
    "broker/telemetry/totals_walk": "broker/telemetry/test_sys_topics_sums.py",
    "broker/telemetry/wall": "broker/telemetry/test_schema.py",
    "config/address_settings": "config/test_models.py",
    "config/admin": "config/test_models.py",
    "config/drop_events": "config/test_models.py",
    "config/tls": "config/test_models.py",
    "config/http": "config/test_access.py",
    "config/postgres": "config/test_access.py",
    "config/admin_rules": "config/test_rules.py",
    "config/errors": "config/test_load.py",
    "config/layers": "config/test_load.py",
    "config/machine": "config/test_memory.py",
    "config/emqx/access": "broker/cli/test_importing_emqx.py",
    "config/emqx/acl": "broker/cli/test_importing_emqx_access.py",
    "config/emqx/authorization": "broker/cli/test_importing_emqx_access.py",
    "config/emqx/bridge_topics": "broker/cli/test_importing_emqx_bridges.py",
    "config/emqx/bridges": "broker/cli/test_importing_emqx_bridges.py",
    "config/emqx/erlang": "broker/cli/test_importing_emqx_access.py",
    "config/emqx/listener": "broker/cli/test_importing_emqx.py",
    "config/emqx/options": "broker/cli/test_importing_emqx.py",
    "config/emqx/reading": "broker/cli/test_importing_emqx.py",
    "config/emqx/translation": "broker/cli/test_importing_emqx.py",
    "config/emqx/values": "broker/cli/test_importing_emqx.py",
    "config/imported/bridges": "broker/cli/test_importing_bridges.py",
    "config/imported/draft": "broker/cli/test_importing.py",
    "config/mosquitto/acl": "broker/cli/test_importing_closed.py",
    "config/mosquitto/bridge_options": "broker/cli/test_importing_bridges.py",
    "config/mosquitto/bridge_tls": "broker/cli/test_importing_bridges.py",
    "config/mosquitto/bridges": "broker/cli/test_importing_bridges_behaviour.py",
    "config/mosquitto/connection": "broker/cli/test_importing_bridges.py",
    "config/mosquitto/lines": "broker/cli/test_importing.py",
    "config/mosquitto/listener": "broker/cli/test_importing_behaviour.py",
    "config/mosquitto/opening": "broker/cli/test_importing_listeners.py",
    "config/mosquitto/options": "broker/cli/test_importing.py",
    "config/mosquitto/paths": "broker/cli/test_importing_paths.py",
    "config/mosquitto/permissions": "broker/cli/test_importing_behaviour.py",
    "config/mosquitto/plugins": "broker/cli/test_importing_closed.py",
    "config/imported/render": "broker/cli/test_importing.py",
    "config/mosquitto/translation": "broker/cli/test_importing.py",
    "config/mosquitto/values": "broker/cli/test_importing.py",
    "config/mqtt": "config/test_models.py",
    "config/partial": "config/test_rules.py",
    "config/persistence": "config/test_models.py",
    "config/quota": "config/test_models.py",
    "config/rule": "broker/auth/test_rules.py",
    "config/file_sizes": "config/test_files.py",
    "config/rules_file": "broker/auth/rule_files/test_rules_file.py",
    "config/schema": "config/test_models_default_file.py",
    "config/session": "config/test_models.py",
    "config/tokens": "broker/auth/authenticators/test_token_keys.py",
    "config/urls": "config/test_access.py",
    "config/value_types": "config/test_models.py",
    "protocol/errors": "protocol/test_decoder_malformed.py",
    "protocol/packet": "by everything that sends a packet",
    "protocol/ping": "protocol/test_decoder_round_trip.py",
    "protocol/publish_encoder": "protocol/test_publish.py",
    "session/group_keys": "session/test_shared_queue_keys.py",
    "session/group_round_robin": "session/test_shared_queue.py",
    "session/drops": "broker/telemetry/test_drop_events.py",
    "session/tail": "broker/storage/test_kept_queue.py",
    "session/flows": "session/test_fair_mqueue.py",
    "session/lanes": "session/test_fair_mqueue.py",
    "session/new_mqueue": "broker/test_clients_flows.py",
    "session/holder": "session/test_address.py",
    "session/room": "session/test_backpressure.py",
    "session/host": "by everything that has a session",
    "session/journal": "broker/storage/test_compaction.py",
    "session/mailbox": "session/test_qos0_gate.py",
    "session/uncommon_counts": "session/test_counters.py",
    "session/sender": "session/test_outbound.py",
    "session/source": "session/test_shared_queue.py",
}
"""Modules without a test file of their own, and where they are tested."""


@cache
def _modules() -> set[str]:
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {file.relative_to(ROOT).with_suffix("").as_posix() for file in files if not file.name.startswith("__")}


def _tests() -> list[Path]:
    return sorted(test for package in PACKAGES for test in (ROOT / "tests" / package).rglob("test_*.py"))


def _module_of(test: Path) -> str | None:
    """The module that a test file is named after: `test_MODULE.py` or `test_MODULE_aspect.py`, in its room."""
    room = test.relative_to(ROOT / "tests").parent.as_posix()
    name = test.stem.removeprefix("test_")
    names = [module for module in _modules() if module.rpartition("/")[0] == room]
    fitting = [module for module in names if f"{name}_".startswith(f"{module.rpartition('/')[2]}_")]
    return max(fitting, key=len, default=None)


def test_each_test_file_is_named_after_a_module() -> None:
    """Who knows the module finds its tests, and the other way round."""
    assert [str(test.relative_to(ROOT)) for test in _tests() if _module_of(test) is None] == []


def test_each_module_has_its_tests() -> None:
    """A module without a test file of its own is on the list that says where it is tested."""
    tested = {_module_of(test) for test in _tests()}
    assert _modules() - tested == set(TESTED_WITH)
    assert [where for where in TESTED_WITH.values() if not where.startswith("by ") and not _there(where)] == []


def test_class_names_differ() -> None:
    """One class of the broker has a name; the sections of config/ have their own, which are those of the file."""
    files = (path for package in ("protocol", "session", "broker") for path in (ROOT / package).rglob("*.py"))
    statements = (each for file in files for each in ast.parse(file.read_text()).body)
    names = Counter(each.name for each in statements if isinstance(each, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def _there(test: str) -> bool:
    return (ROOT / "tests" / test).exists()
