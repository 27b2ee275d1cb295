"""Publishing: a message is routed, and retained if RETAIN is set."""

from typing import final

from broker.routing.other_cells import OtherCells
from broker.routing.retained import Retained
from broker.routing.router import CLOSED, FULL, Router
from broker.routing.topic_rules import TopicRules
from broker.runtime.clock import SECOND
from broker.runtime.read_gate import ReadGate
from broker.storage.journal import Journal
from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.replies import not_permitted
from session.outbound import Outbound
from session.session import Session


@final
class Messages:
    """Publishes messages from sessions, wills and full addresses."""

    def __init__(
        self, router: Router, retained: Retained, topic_rules: TopicRules, journal: Journal | None = None
    ) -> None:
        self.router = router
        self.crossing: OtherCells | None = None
        """CL-3: which cells a PUBACK may have to wait for; None = for none."""
        self.retained = retained
        self._topic_rules = topic_rules
        self._journal = journal

    def publish(self, publish: Publish, publisher: Session, gate: ReadGate | None) -> int:
        """Route a PUBLISH, and retain it if RETAIN is set; returns NOBODY, MATCHED or FULL. Raises PublishRefused.

        `gate`: of the connection on which it has come; None = none.
        """
        journal = self._journal
        if publish.retain:
            self._number(publish)
        if journal is not None:
            journal.begin(publish, publisher.client_id)
        try:
            verdict = self.router.route(publish, publisher.outbound)
            if verdict == CLOSED:
                verdict = self._publish_state(publish, publisher)
            if publish.retain and verdict != FULL:
                self._retain(publish, publisher.client_id, publisher.outbound)
            return verdict
        finally:
            if journal is not None:
                commit = journal.end()
                if commit and publish.qos:  # FC-27: it is acknowledged when it is on disk
                    publisher.outbox.wait_for(commit)
                if journal.needed and gate is not None:
                    journal.commits.added_by(gate, publish.received_at)
            elif self.crossing is not None and publish.qos:
                publisher.outbox.wait_for(self.crossing.crossed())

    def _publish_state(self, publish: Publish, publisher: Session) -> int:
        """Route a PUBLISH to a closed topic if it is a bridge's state of its own connection. Raises PublishRefused."""
        client_id = publisher.client_id
        message = (client_id, publish.topic, publish.payload, publish.retain)
        if not self._topic_rules.may_publish_state(*message):
            raise not_permitted(publish.topic, self._topic_rules.state_mistake(*message))
        return self.router.route_late(publish, publisher.outbound)

    def publish_own(self, publish: Publish, now: int) -> int:
        """Publish a message of the broker itself, without rules, also to a full address; returns NOBODY or MATCHED."""
        publish.received_at = now
        self._number(publish)
        journal = self._journal
        if journal is not None:
            journal.begin(publish, "")
        try:
            verdict = self.router.route(publish, None)
            if publish.retain:
                self._retain(publish, "", None)
            return verdict
        finally:
            if journal is not None:
                journal.end()

    def publish_late(self, publish: Publish, client_id: str, publisher: Outbound | None, now: int) -> int:
        """`publish` without the check for room in the address; `publisher` is None if its session has ended."""
        publish.received_at = now
        self._number(publish)
        journal = self._journal
        if journal is None:
            verdict = self._publish_late(publish, client_id, publisher)
            if self.crossing is not None and publisher is not None and publish.qos:
                publisher.sender.outbox.wait_for(self.crossing.crossed())
            return verdict
        journal.begin(publish, client_id)
        try:
            return self._publish_late(publish, client_id, publisher)
        finally:
            commit = journal.end()
            if commit and publish.qos and publisher is not None:
                publisher.sender.outbox.wait_for(commit)

    def _publish_late(self, publish: Publish, client_id: str, publisher: Outbound | None) -> int:
        verdict = self.router.route_late(publish, publisher)
        if publish.retain:
            self._retain(publish, client_id, publisher)
        return verdict

    def _number(self, publish: Publish) -> None:
        """What other cells retain, too, needs a time of its own, before anything is derived from it."""
        if publish.retain and self.router.cells is not None:
            self.router.cells.number(publish)

    def _retain(self, publish: Publish, client_id: str, publisher: Outbound | None) -> None:
        self.retained.store(publish, client_id)
        if self.router.cells is not None:
            self.router.cells.retained(publish, publisher)


def read_expiry(publish: Publish, properties: Properties, now: int) -> None:
    """Set the expiry time from the Message Expiry Interval, if there is one [MQTT-3.3.2-5]."""
    interval = properties.get(props.MESSAGE_EXPIRY_INTERVAL)
    if isinstance(interval, int):
        publish.expires_at = now + interval * SECOND
