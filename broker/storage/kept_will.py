"""The will of a client whose session ends with its connection, in the journal (FC-27)."""

from typing import final

from broker.storage import records
from broker.storage.journal import Journal
from broker.storage.kept_state import KeptState
from broker.storage.owner import Owner
from protocol.publish import Publish


@final
class KeptWill(KeptState):
    """It is there as a session that ends at once, so it is published after a crash, with the rights of its owner."""

    def __init__(self, journal: Journal, number: int, client_id: str, level: int, owner: Owner | None) -> None:
        super().__init__(journal, number)
        self.client_id = client_id
        self.owner = owner
        """Whose client it is; None: unknown."""
        self.level = level
        """The protocol level of its client."""
        self._record = b""

    def write(self, will: Publish) -> int:
        """Write it. Returns the commit that has to come before CONNACK."""
        self._record = records.will(self.number, will, 0)
        return self.write_state()

    def write_state(self) -> int:
        """Write all of it. Returns the commit."""
        state = [records.session(self.number, self.client_id, self.level, 0, 0)]
        if self.owner is not None:
            state.append(records.owner(self.number, self.owner))
        return self.write_all([*state, self._record])

    def restore(self, packet: bytes) -> None:
        """Continue with what the journal holds; `packet`: its PUBLISH."""
        self._record = records.saved_will(self.number, packet, 0)
