"""The kept queue of a shared subscription in the journal (FC-13, FC-27)."""

from typing import final

from broker.storage import records
from broker.storage.journal import Journal
from broker.storage.kept_queue import KeptQueue


@final
class KeptGroup(KeptQueue):
    """The records of a group that has, or had, a kept member. `name` is `$share/group/filter`."""

    def __init__(self, journal: Journal, number: int, name: str) -> None:
        super().__init__(journal, number)
        self.name = name

    def write_state(self) -> int:
        """Write all state except the deliveries. Returns the commit."""
        return self.write_all([records.group(self.number, self.name, self.deliveries.next_delivery)])

    def sent(self, delivery: int, packet_id: int, qos: int) -> int:
        """A member whose session is not kept is about to get it: at QoS 2 no other member may then [MQTT-4.8.2-5]."""
        if qos == 2 and not self.ended:
            self.deliveries.finish(delivery)
            return self.journal.note(self.deliveries, True)
        return 0

    def received(self, delivery: int) -> int:
        """PUBREC has come from a member whose session is not kept."""
        return 0

    def remember(self, packet_id: int) -> int:
        """A group receives no PUBLISH."""
        raise NotImplementedError

    def forget(self, packet_id: int) -> int:
        """A group receives no PUBLISH."""
        raise NotImplementedError
