"""Which topics clients may publish and subscribe to: the same for all, but each bridge may publish its own state.

The rules depend on the topic or filter, not on the session. So the router caches their result with a topic's receivers
and does not check them for each message.
"""

from typing import Final, final

from broker.auth.bridge_state import state_topic
from broker.routing.filter_tree import FilterTree
from config.models import Config
from protocol import reason_codes
from protocol.publish import Publish

OWN_TOPICS: Final = b"$SYS/"
"""Prefix of the broker's own topics (section 4.7.2)."""


@final
class TopicRules:
    """The rules of the configuration section `authorization`."""

    def __init__(self, config: Config | None = None) -> None:
        self.close_refused = False
        """Whether a refused PUBLISH closes a 3.1.1 client's connection; 3.1.1 has no reason code [MQTT-3.3.5-2]."""
        self.refused_subscribe: int = reason_codes.UNSPECIFIED_ERROR
        """The reason code in SUBACK for a denied filter."""
        self._bridge_state = True
        self._deny_publish = FilterTree()
        self._deny_receive = FilterTree()
        self._deny_receive_below = FilterTree()  # the denied filters that end with "#"
        if config is not None:
            self.use(config)

    def use(self, config: Config) -> None:
        """Follow this configuration from now on; the router has to forget what it knows of topics."""
        rules = config.authorization
        self.close_refused = rules.refused_publish == "close"
        unspecified = rules.refused_subscribe == "unspecified"
        self.refused_subscribe = reason_codes.UNSPECIFIED_ERROR if unspecified else reason_codes.NOT_AUTHORIZED
        self._deny_publish = FilterTree()
        self._deny_receive = FilterTree()
        self._deny_receive_below = FilterTree()
        self._bridge_state = rules.bridge_state
        for denied in rules.deny_publish:
            self._deny_publish.at(denied.encode())
        for denied in rules.deny_subscribe:
            self._deny_receive.at(denied.encode())
            if denied.endswith("#"):
                self._deny_receive_below.at(denied.encode())

    def may_publish(self, topic: bytes) -> bool:
        """Whether clients may publish, and have wills, on a topic."""
        return not (topic.startswith(OWN_TOPICS) or topic == b"$SYS" or self._deny_publish.match(topic))

    def may_publish_state(self, client_id: str, topic: bytes, payload: bytes, retain: bool) -> bool:
        """Whether this message may go to a `$SYS/` topic: a bridge's state of its own connection."""
        return (
            self._bridge_state
            and is_own_state(client_id, topic, payload, retain)
            and not self._deny_publish.match(topic)
        )

    def state_mistake(self, client_id: str, topic: bytes, payload: bytes, retain: bool) -> str:
        """What is wrong with a message that is refused on the topic of its client's own state; empty = the topic is."""
        right = client_id and topic == state_topic(client_id) and not self._deny_publish.match(topic)
        if not right or not self._bridge_state:
            return ""
        if not retain:
            return ": a bridge's state has to be retained"
        return ": the payload of a bridge's state has to be 1 or 0"

    def may_receive(self, topic: bytes) -> bool:
        """Whether messages on a topic may be delivered at all, by any filter."""
        return not self._deny_receive.match(topic)

    def hides_topics(self) -> bool:
        """Whether the messages of some topics may not be delivered."""
        return not self._deny_receive.is_empty()

    def may_deliver(self, publish: Publish) -> bool:
        """Whether a message that waits may still be delivered."""
        return not self._deny_receive.match(publish.topic)

    def may_subscribe(self, topic_filter: bytes) -> bool:
        """Whether clients may use a filter: not if a denied filter covers it, since it would never get a message.

        A filter without "#" is covered by a denied one that matches it as if it were a topic: only "+" or "#" matches a
        "+". A filter with "#" is covered by a denied one whose "#" begins no later and that matches the shortest of its
        topics.
        """
        if not topic_filter.endswith(b"#"):
            return not self._deny_receive.match(topic_filter)
        shortest = topic_filter[:-2] or topic_filter[:-1] + b"+"  # no topic is empty
        return not self._deny_receive_below.match(shortest)


def is_own_state(client_id: str, topic: bytes, payload: bytes, retain: bool) -> bool:
    """Whether a message or will is a bridge's state of its own connection.

    It is on that topic and retained, and its payload is 1 (connected) or 0. The client id is empty if the broker has
    not assigned one yet; such a client cannot know its topic.
    """
    if not client_id or not retain or (payload != b"1" and payload != b"0"):
        return False
    return topic == state_topic(client_id)
