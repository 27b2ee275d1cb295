"""PUBLISHes on their way to the remote broker: their topics there, and the path that tells loops."""

from typing import Final, final

from broker.bridge.topics import Topics
from broker.routing.via import LONGEST, Via
from protocol import properties as props
from protocol.publish import Publish
from session.flows import BROKER
from session.outbox import Rewriter

_BYTES: Final = 4
"""Of a character, at most."""


@final
class Outgoing(Rewriter):
    """Renames what goes out of one bridge."""

    def __init__(self, topics: Topics, via: Via, version: int, retains: bool, known: bool) -> None:
        """`retains`: whether what goes out may be retained; `known`: whether the remote broker knows this one."""
        self._topics = topics.outgoing
        self._responses = topics.outgoing_responses
        self._via = via
        self._version = version
        self.retains = retains
        self._known = known
        self._plain = retains and (version == 4 or known) and not self._topics.changes
        """Whether a message of a client here, without properties, goes out as it is."""
        self.adds = LONGEST + _BYTES * (self._topics.adds + self._responses.adds)

    def rewritten(self, publish: Publish) -> Publish:
        """The PUBLISH as the remote broker gets it."""
        if self._plain and publish.properties is None and not publish.flow & BROKER:
            return publish
        if publish.retain and not self.retains:
            publish = publish.at(publish.qos, False)
        topic = publish.topic
        if self._topics.changes:
            topic = self._topics.name(topic) or topic
        if self._version == 4:
            return publish if topic is publish.topic else publish.renamed(topic, None, b"")
        properties = publish.properties
        response = None if properties is None else properties.get(props.RESPONSE_TOPIC)
        if properties is not None and isinstance(response, str):
            name = self._responses.name(response.encode())
            if name:
                properties = dict(properties)
                properties[props.RESPONSE_TOPIC] = name.decode()
        return self._via.extended(publish, topic, properties, self._known)
