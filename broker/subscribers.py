"""Who is subscribed to one topic filter: sessions, and groups of sessions that share the subscription."""

from typing import Final, final

from broker.shared import SharedGroups
from protocol.subscribe import Subscription
from session.outbound import Outbound
from session.shared_queue import SharedQueue

NOT_SHARED: Final = ""
"""In place of a share name, which is never empty [MQTT-4.8.2-1]."""


@final
class Subscribers:
    """The subscriptions to one topic filter."""

    def __init__(self) -> None:
        self.sessions: dict[Outbound, Subscription] = {}
        self.groups: dict[str, SharedQueue] | None = None
        """By share name; None until the first."""

    def add(self, share: str, outbound: Outbound, subscription: Subscription, shared: SharedGroups) -> None:
        """Add a subscription, or replace that of the same session and share name."""
        if share == NOT_SHARED:
            self.sessions[outbound] = subscription
            return
        if self.groups is None:
            self.groups = {}
        group = self.groups.get(share)
        if group is None:
            group = self.groups[share] = shared.queue(subscription.topic_filter)
        group.add(outbound, subscription)

    def remove(self, share: str, outbound: Outbound, shared: SharedGroups) -> None:
        """Remove a subscription; nothing happens if there is none."""
        if share == NOT_SHARED:
            self.sessions.pop(outbound, None)
            return
        if self.groups is None:
            return
        group = self.groups.get(share)
        if group is not None:
            group.remove(outbound)
            if not group.members:
                del self.groups[share]
                shared.close(group)

    def empty(self) -> bool:
        """Whether nobody is left."""
        return not self.sessions and not self.groups
