"""Publishes wills: when the connection ends, after their delay, or when the session ends (section 3.1.2.5)."""

from typing import final

from broker.addresses.policy import Addresses
from broker.clients import Client
from broker.events import Events
from broker.routing.messages import Messages, read_expiry
from broker.routing.router import FULL
from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer, Wheel
from protocol import properties as props
from protocol import reason_codes
from protocol.connect import Will
from protocol.errors import MQTTError
from protocol.publish import Publish
from protocol.replies import not_permitted


@final
class Wills:
    """Publishes the wills of all clients."""

    def __init__(self, messages: Messages, addresses: Addresses, wheel: Wheel, events: Events) -> None:
        self._messages = messages
        self._addresses = addresses
        self._wheel = wheel
        self._events = events

    def schedule(self, client: Client, will: Will, expiry: int, now: int) -> None:
        """The connection has ended: publish its will, now or later. `expiry`: seconds until the session ends."""
        delay = will_delay(will, expiry)
        publish = will_publish(will)
        if delay == 0:
            self.publish(client, publish, now)
        else:
            self.delay(client, publish, now + delay * SECOND)

    def delay(self, client: Client, publish: Publish, at: int) -> None:
        """Publish a detached client's will at this time, unless it connects before."""
        timer = client.will = WillTimer(self, client, publish)
        self._wheel.add(at, timer)

    def publish(self, client: Client, publish: Publish, now: int) -> None:
        """Publish a will, or drop it if it was permitted when its client connected, and is not any more.

        Raises nothing for that: whatever ends the connection, or the session, has more to do.
        """
        session = client.session
        publish.received_at = now
        publish.flow = session.flow
        if publish.properties is not None:
            read_expiry(publish, publish.properties, now)
        try:
            verdict = self._publish(client, publish)
        except MQTTError as refused:
            session.inbound.count_refused()
            session.counters.tell_lost("will_refused", publish)
            self._events.will_dropped(session, refused)
            return
        if verdict == FULL:
            self._addresses.overflow_will(session, publish, now)

    def _publish(self, client: Client, publish: Publish) -> int:
        """Route a will as `Messages.publish`. Raises MQTTError if rules or limits are against it.

        Its client is the publisher, which matters for No Local [MQTT-3.8.3-3].
        """
        session = client.session
        permissions = client.permissions
        if permissions is not None and not permissions.may_publish(publish.topic, publish.qos, publish.retain):
            raise not_permitted(publish.topic)
        if (publish.qos or publish.retain) and not self._addresses.may_route():
            raise MQTTError(reason_codes.QUOTA_EXCEEDED, "a will while the journal, or its disk, is full")  # FC-29
        return self._messages.publish(publish, session, None)


@final
class WillTimer(Timer):
    """Publishes a will when its delay has passed [MQTT-3.1.2-8]."""

    def __init__(self, wills: Wills, client: Client, publish: Publish) -> None:
        self._wills = wills
        self.client = client
        self.publish: Publish | None = publish

    def wanted(self) -> bool:
        """False if the client has connected again [MQTT-3.1.3-9], or the session has ended and published the will."""
        return self.client.will is self

    def let_go(self) -> None:
        """The client has connected again."""
        self.publish = None

    def due(self, now: int) -> None:
        """Publish the will."""
        publish, self.publish = self.publish, None
        if self.wanted() and publish is not None:
            self.client.will = None
            if self.client.kept is not None:
                self.client.kept.will_published()
            self._wills.publish(self.client, publish, now)


def will_publish(will: Will) -> Publish:
    """The PUBLISH of a will, without its Will Delay Interval."""
    properties = will.properties
    if properties is not None:
        properties = {key: value for key, value in properties.items() if key != props.WILL_DELAY_INTERVAL}
    return Publish(will.topic, will.payload, will.qos, will.retain, properties or None)


def will_delay(will: Will, expiry_interval: int) -> int:
    """Seconds until a will is published: its delay, or until the session ends if that is sooner (section 3.1.3.2.2)."""
    return min(props.integer(will.properties, props.WILL_DELAY_INTERVAL), expiry_interval)
