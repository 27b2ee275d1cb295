"""All bridges of a broker."""

from typing import final

from broker.bridge.bridge import Bridge
from broker.broker import Broker
from config.bridge import CLIENT_ID
from config.models import Config


@final
class Bridges:
    """Starts, changes and removes bridges as the configuration says."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.all: dict[str, Bridge] = {}
        """By name."""

    def start(self, config: Config, now: int) -> None:
        """Begin; kept sessions of bridges that the configuration has no longer end."""
        named = {each.local_id for each in config.bridges if each.enabled}
        for client in self._broker.clients.known():
            client_id = client.session.client_id
            if client_id.startswith(CLIENT_ID) and client_id not in named:
                waiting = client.session.gauges().mqueue_len
                self._broker.events.log.warning(
                    "bridge_removed", bridge=client_id.removeprefix(CLIENT_ID), dropped=waiting
                )
                self._broker.sessions.end(client, now)
        self.use(config, now)

    def use(self, config: Config, now: int) -> None:
        """Follow the configuration; a bridge that is the same as before stays connected."""
        wanted = {each.name: each for each in config.bridges if each.enabled}
        for name in [name for name in self.all if name not in wanted]:
            bridge = self.all.pop(name)
            waiting = bridge.session.waiting()
            bridge.remove(now)
            self._broker.events.log.warning("bridge_removed", bridge=name, dropped=waiting)
        for name, settings in wanted.items():
            known = self.all.get(name)
            if known is None:
                known = self.all[name] = Bridge(self._broker, settings, config.node_name, now)
                known.start(now)
            elif known.settings != settings:
                known.use(settings, now)
            else:
                known.session.renew(now)

    def stop(self) -> None:
        """The broker stops, and closes all connections: none is opened again."""
        for bridge in self.all.values():
            bridge.stop()
