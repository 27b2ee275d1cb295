"""The clients that the broker knows: for each client id its session, its connection, and what is to happen later."""

from typing import TYPE_CHECKING, Final, final

from broker.runtime.clock import monotonic_us
from broker.runtime.timers import Timer
from protocol import properties as props
from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.errors import ProtocolError
from protocol.publish import Publish
from session.counters import Counters
from session.host import Host
from session.session import Session

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection.connection import Connection
    from broker.routing.retained_feed import RetainedFeed

NEVER_EXPIRES: Final = 0xFFFFFFFF
"""MQTT 5's Session Expiry Interval for a session that stays (section 3.1.2.11.2)."""


@final
class Client:
    """One client id: the broker's record of it, for as long as its session lives."""

    def __init__(self, client_id: str, broker: "Broker", now: int) -> None:
        self.session = Session(client_id, broker.limits, Away(broker, self), now)
        self.connection: Connection | None = None
        self.expiry_interval = 0
        """Seconds that the session outlives its connection; 0 = not at all, NEVER_EXPIRES = until it is taken over."""
        self.bridge = False
        """Whether it has connected as a bridge by MQTT 3.1.1 (protocol level 0x84)."""
        self.asked_to_last = False
        """Whether CONNECT asked for a Session Expiry Interval above zero, even if it was not given one."""
        self.expires_at = 0
        """When an offline session ends, in microseconds; 0 = it does not."""
        self.will: WillTimer | None = None
        """A will that waits for its delay."""
        self.feed: RetainedFeed | None = None
        """Retained messages that new subscriptions bring; None until the first."""
        self.walk = 0
        """The last walk of $SYS over all sessions that has been here."""

    def change_expiry(self, packet: Disconnect, longest: int) -> None:
        """DISCONNECT may set another expiry, up to `longest`; where it is zero it stays so (section 3.14.2.2.2)."""
        if packet.properties is None or props.SESSION_EXPIRY_INTERVAL not in packet.properties:
            return
        wanted = props.integer(packet.properties, props.SESSION_EXPIRY_INTERVAL)
        if wanted and not self.asked_to_last:
            raise ProtocolError("DISCONNECT gives a session an expiry that CONNECT set to zero")
        self.expiry_interval = min(wanted, longest)


@final
class Ended:
    """What the metrics still have to tell of a session that is over, and no more: clients may come and go fast."""

    def __init__(self, session: Session, counters: Counters) -> None:
        self.client_id = session.client_id
        self.listener = session.listener
        self.version = session.version
        self.created_at = session.created_at
        self.counters = counters


@final
class Away(Host):
    """Stands in for a client that is not connected: what is delivered to it is stored (FC-7)."""

    def __init__(self, broker: "Broker", client: Client) -> None:
        self.broker = broker
        self.client = client

    def wake(self) -> None:
        """Store at once: nobody else will take up the mailbox."""
        self.client.session.outbound.store_offline(monotonic_us())

    def arm(self, at: int) -> None:
        """Have the session's timers looked at."""
        self.broker.wheel.add(at, SessionTimer(self.client.session))

    def report(self, event: str, detail: str = "") -> None:
        """Log it, with who it is about."""
        self.broker.report(event, self.client, detail)

    def let_in(self, now: int) -> None:
        """Nothing waits: what did is forgotten when the client goes."""

    def disconnect(self, reason_code: int, reason: str) -> None:
        """The client is not connected."""

    def pause_publishing(self) -> None:
        """It publishes nothing."""

    def resume_publishing(self) -> None:
        """It publishes nothing."""


@final
class SessionTimer(Timer):
    """Calls a session when something in it is due (FC-8, FC-22)."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def wanted(self) -> bool:
        """Not when another call has replaced this one, or the session is over."""
        return self.session.outbound.timer_at == self.at

    def due(self, now: int) -> None:
        """Let the session look, and its host write what it has to say."""
        self.session.on_timer(now)
        self.session.outbound.host.wake()


@final
class ExpiryTimer(Timer):
    """Ends an offline session when its expiry has passed (section 3.1.2.11.2)."""

    def __init__(self, broker: "Broker", client: Client) -> None:
        self.broker = broker
        self.client = client

    def wanted(self) -> bool:
        """Not when the client has come back, even if it has gone again, or the session is over."""
        return self.client.expires_at == self.at

    def due(self, now: int) -> None:
        """End it, unless the client has come back meanwhile."""
        if self.wanted():
            self.broker.totals.expired += 1
            self.broker.end_session(self.client, now)


@final
class WillTimer(Timer):
    """Publishes a will when its delay has passed [MQTT-3.1.2-8]."""

    def __init__(self, broker: "Broker", client: Client, publish: Publish) -> None:
        self.broker = broker
        self.client = client
        self.publish = publish

    def wanted(self) -> bool:
        """Not when the client has come back [MQTT-3.1.3-9] or the session's end has published the will already."""
        return self.client.will is self

    def due(self, now: int) -> None:
        """Publish it."""
        if self.wanted():
            self.client.will = None
            self.broker.publish_will(self.client, self.publish, now)


def will_publish(will: Will) -> Publish:
    """The PUBLISH that a will becomes; its delay is not part of it."""
    properties = will.properties
    if properties is not None:
        properties = {key: value for key, value in properties.items() if key != props.WILL_DELAY_INTERVAL}
    return Publish(will.topic, will.payload, will.qos, will.retain, properties or None)


def will_delay(will: Will, expiry_interval: int) -> int:
    """Seconds until a will is published: its delay, or until the session ends if that is sooner (section 3.1.3.2.2)."""
    return min(props.integer(will.properties, props.WILL_DELAY_INTERVAL), expiry_interval)
