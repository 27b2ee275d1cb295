"""Serves the admin API of a host."""

from typing import TYPE_CHECKING

from broker.admin.host.managed_host import ManagedHost
from broker.admin.links import Links
from broker.admin.server import AdminServer, open_admin

if TYPE_CHECKING:
    from broker.admin.api.dashboard import Where
    from broker.admin.server import Loaded


async def start_host_admin(host: ManagedHost, dashboard: bool) -> AdminServer | None:
    """Serve it as the configuration says; None if it is switched off. `dashboard`: in any case over TCP.

    Raises OSError if a configured path or address cannot be used.
    """

    def load(links: Links, where: "Where") -> "Loaded":
        from broker.admin.api.load import ready
        from broker.admin.host.app import HostApi

        return ready(HostApi(host, links, where))

    return await open_admin(host, load, dashboard)
