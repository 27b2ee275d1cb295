"""What clients may publish and subscribe to: the same for all, and what a bridge may say of its own state.

The answers hold for a topic or a filter, not for a session, so the router keeps them with a topic's receivers. Nothing
is asked per message.
"""

from typing import Final, final

from broker.routing.filter_tree import FilterTree
from config.models import Config
from protocol import reason_codes

OWN_TOPICS: Final = b"$SYS/"
"""What the broker's own topics begin with (section 4.7.2)."""


RECEIVE_MAXIMUM: Final = 20
"""Deliveries that a bridge by MQTT 3.1.1, which cannot say so, is taken to accept at once. It is what Mosquitto's say
by MQTT 5 (`max_inflight_messages`); what comes at QoS 2 past that they acknowledge and discard."""


STATE_BEFORE: Final = b"$SYS/broker/connection/"


STATE_BEHIND: Final = b"/state"


@final
class Authorization:
    """The rules of the section `authorization`."""

    def __init__(self, config: Config | None = None) -> None:
        self.close_refused = False
        """Whether a refused PUBLISH closes the connection of a 3.1.1 client, which cannot be told [MQTT-3.3.5-2]."""
        self.refused_subscribe: int = reason_codes.UNSPECIFIED_ERROR
        """What SUBACK says of a denied filter."""
        self._bridge_state = True
        self._deny_publish = FilterTree()
        self._deny_receive = FilterTree()
        self._deny_receive_below = FilterTree()  # those among them that end with "#"
        if config is not None:
            self._read(config)

    def _read(self, config: Config) -> None:
        rules = config.authorization
        self.close_refused = rules.refused_publish == "close"
        if rules.refused_subscribe == "not_authorized":
            self.refused_subscribe = reason_codes.NOT_AUTHORIZED
        self._bridge_state = rules.bridge_state
        for denied in rules.deny_publish:
            self._deny_publish.at(denied.encode())
        for denied in rules.deny_subscribe:
            self._deny_receive.at(denied.encode())
            if denied.endswith("#"):
                self._deny_receive_below.at(denied.encode())

    def may_publish(self, topic: bytes) -> bool:
        """Whether any client may publish to a topic, and have wills there."""
        return not (topic.startswith(OWN_TOPICS) or topic == b"$SYS" or self._deny_publish.match(topic))

    def may_tell_state(self, client_id: str, topic: bytes, payload: bytes, retain: bool) -> bool:
        """Whether this one message may go to a topic of the broker's own: what bridges say of their connection."""
        return (
            self._bridge_state
            and is_own_state(client_id, topic, payload, retain)
            and not self._deny_publish.match(topic)
        )

    def may_receive(self, topic: bytes) -> bool:
        """Whether messages on a topic may reach anybody, by whatever filter."""
        return not self._deny_receive.match(topic)

    def may_subscribe(self, topic_filter: bytes) -> bool:
        """Whether clients may use a filter: not if a denied one covers it, since then nothing would ever come.

        A filter without "#" is covered by those that match it as if it were a topic: only "+" matches a "+". One with
        "#" is so by those whose own "#" begins no later, and which match the shortest of its topics.
        """
        if not topic_filter.endswith(b"#"):
            return not self._deny_receive.match(topic_filter)
        shortest = topic_filter[:-2] or topic_filter[:-1] + b"+"  # no topic is empty
        return not self._deny_receive_below.match(shortest)


def is_own_state(client_id: str, topic: bytes, payload: bytes, retain: bool) -> bool:
    """Whether a message, or a will, is a client's word on its own connection, as bridges have it.

    It goes to `$SYS/broker/connection/CLIENT_ID/state`, is retained, and is 1 (connected) or 0 (not). A
    client that the broker has yet to name cannot know its topic.
    """
    if not client_id or not retain or (payload != b"1" and payload != b"0"):
        return False
    return topic == STATE_BEFORE + client_id.encode() + STATE_BEHIND
