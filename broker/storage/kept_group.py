"""The kept queue of a shared subscription in the journal (FC-13, FC-27)."""

from typing import final

from broker.storage import message_record, records
from broker.storage.deliveries import Number
from broker.storage.journal import Journal
from broker.storage.kept_queue import KeptQueue
from protocol.publish import Publish


@final
class KeptGroup(KeptQueue):
    """The records of a group that has, or had, a kept member. `name` is `$share/group/filter`."""

    def __init__(self, journal: Journal, number: int, name: str) -> None:
        super().__init__(journal, number)
        self.name = name

    def write_state(self) -> int:
        """Write all state except the deliveries. Returns the commit."""
        return self.write_all([records.group(self.number, self.name, self.deliveries.next_delivery)])

    def add_first(self, publish: Publish) -> Publish:
        """Write that the queue gets a message back, at its head (FC-13). Returns a delivery of its own."""
        deliveries = self.deliveries
        target = message_record.target(self.number, deliveries.first_delivery - 1, publish)
        message = self.journal.target(publish, target)
        return self.hold(publish, message, deliveries.begin_first(message))

    def sent(self, delivery: Number, packet_id: int, qos: int) -> int:
        """A member whose session is not kept is about to get it: at QoS 2 no other member may then [MQTT-4.8.2-5]."""
        if qos == 2 and not self.ended:
            self.deliveries.finish(delivery)
            return self.journal.note(self.deliveries, True)
        return 0

    def received(self, delivery: Number) -> int:
        """PUBREC has come from a member whose session is not kept."""
        return 0
