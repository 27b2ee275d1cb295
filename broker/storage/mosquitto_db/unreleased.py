"""Hands on what publishers have sent at QoS 2 and not released.

Mosquitto keeps such a message with its publisher until PUBREL comes, and routes it then. Sluice routes it when PUBLISH
comes, and remembers the packet id until PUBREL comes (FC-21). So it is routed here, once.
"""

from broker.storage.mosquitto_db.chunks import MessageChunk
from broker.storage.mosquitto_db.contents import KeptClient, MosquittoState, Waiting
from protocol.subscribe import Subscription
from protocol.topics import matches


def release(contents: MosquittoState) -> int:
    """Route all of them to the sessions of the file; returns how many there are."""
    filters = _by_filter(contents)
    known: _Receivers = {}
    count = 0
    for publisher in contents.sessions.values():
        for number in publisher.incoming.values():
            message, _ = contents.message(number)
            topic = message.topic.decode()
            if topic not in known:
                known[topic] = [each for own in filters if matches(own, topic) for each in filters[own]]
            _route(contents, known[topic], number, message)
            count += 1
    return count


_Receivers = dict[str, list[tuple[KeptClient, Subscription]]]


def _by_filter(contents: MosquittoState) -> _Receivers:
    filters: _Receivers = {}
    for session in contents.sessions.values():
        for topic_filter, subscription in session.subscriptions.items():
            filters.setdefault(topic_filter, []).append((session, subscription))
    return filters


def _route(
    contents: MosquittoState, receivers: list[tuple[KeptClient, Subscription]], number: int, message: MessageChunk
) -> None:
    found: dict[str, Waiting] = {}
    publisher = message.publisher.decode()
    for session, subscription in receivers:
        if not (subscription.no_local and session.client_id == publisher):
            _offer(found, session, subscription, number, message)
    if message.retain:
        contents.retained.pop(message.topic, None)
        if message.payload:
            contents.retained[message.topic] = number


def _offer(
    found: dict[str, Waiting], session: KeptClient, subscription: Subscription, number: int, message: MessageChunk
) -> None:
    """One delivery for each session: at the highest QoS, with all identifiers."""
    qos = min(message.qos, subscription.qos)
    retain = message.retain and subscription.retain_as_published
    if qos == 0:
        return
    waiting = found.get(session.client_id)
    if waiting is None:
        waiting = found[session.client_id] = Waiting(number, qos, retain, b"")
        session.queued.append(waiting)
    waiting.qos = max(waiting.qos, qos)
    waiting.retain = waiting.retain or retain
    waiting.identifiers += subscription.identifiers
