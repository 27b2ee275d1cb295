"""What waits for a session when the rights of its client change, or the topics that nobody may receive: it is decided
anew, when it is about to be sent. Group queues (FC-13) need no such change: they ask whenever they hand over.
"""

from collections.abc import Callable
from typing import Final, final

from broker.auth.permissions import Levels, Permissions, matches
from broker.routing.topic_rules import TopicRules
from protocol.publish import Publish
from protocol.topics import split_share
from session.permitted import check_waiting
from session.session import Session

MOST_DECISIONS: Final = 1_000
"""Topics whose decisions are kept; past that they begin anew."""

_QOS: Final = 3


def recheck_waiting(session: Session, permissions: Permissions | None, topic_rules: TopicRules) -> None:
    """Drop what waits and may no longer be received, at the latest when it would be sent; `permissions`: None = all.

    What has been sent and is not acknowledged is resent: the client may have it already.
    """
    check_waiting(session.outbound, rights(session, permissions, topic_rules))


def rights(session: Session, permissions: Permissions | None, topic_rules: TopicRules) -> Callable[[Publish], bool]:
    """What decides whether a session may receive a delivery that waits; `permissions`: None = all."""
    return topic_rules.may_deliver if permissions is None else Rights(session, permissions, topic_rules).permit


@final
class Rights:
    """Decides about deliveries that have been routed by other rights."""

    def __init__(self, session: Session, permissions: Permissions, topic_rules: TopicRules) -> None:
        self._permissions = permissions
        self._topic_rules = topic_rules
        self._subscriptions: list[tuple[Levels, int]] = []
        for topic_filter, subscription in (session.subscriptions or {}).items():
            self._subscriptions.append((split_share(topic_filter)[1].split(b"/"), subscription.qos))
        self._decisions: dict[tuple[bytes, int], bool] = {}

    def permit(self, publish: Publish) -> bool:
        """Whether the client may receive a delivery."""
        if not self._topic_rules.may_deliver(publish):
            return False
        key = (publish.topic, publish.qos)
        decided = self._decisions.get(key)
        if decided is None:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            decided = self._decisions[key] = self._decide(publish.topic, publish.qos)
        return decided

    def _decide(self, topic: bytes, qos: int) -> bool:
        """By the subscriptions that match; if they have all ended, by any that may have matched."""
        levels = topic.split(b"/")
        found = [own_qos for own, own_qos in self._subscriptions if matches(own, levels)]
        return any(self._permissions.may_receive(topic, each) for each in found or range(qos, _QOS))
