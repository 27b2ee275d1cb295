"""Decides whether a message may be retained, by the quota of its publisher's user (FC-31) and by memory (FC-32)."""

from typing import NamedTuple, final

from broker.clients import Client, Clients
from broker.quota import Quota, Usage
from broker.quotas.quotas import Quotas
from broker.quotas.watermark import MEMORY
from broker.routing.retained import Retained, RetainedPolicy
from broker.routing.retained_message import RetainedMessage
from broker.telemetry.slices import STEP, Slices
from protocol.publish import Publish
from session.parked import bytes_around, rest_of


def bytes_of(message: RetainedMessage) -> int:
    """The bytes that a message counts for: payload, topic, properties, and 64 for its objects."""
    return message.size + bytes_around(message.topic, message.properties)


def bytes_to_be(publish: Publish) -> int:
    """The same, for a message that is not retained yet."""
    return publish.size + rest_of(publish)


class Held(NamedTuple):
    """What one retained message counts for."""

    usage: Usage
    """Of the user whose client has published it."""
    bytes: int


@final
class RetainedGuard(RetainedPolicy):
    """Whose the retained messages are, and which further ones may be retained.

    A publisher that is not known, because its session has ended or the broker has started since, counts as anonymous.
    """

    def __init__(self, quotas: Quotas, clients: Clients, retained: Retained) -> None:
        self._clients = clients
        self._quotas = quotas
        self._held: dict[bytes, Held] = {}
        self._retained = retained
        self._counts = quotas.active and len(retained) == 0
        """Whether what is retained is counted, from the first one on."""

    def refusal(self, publish: Publish, older: RetainedMessage | None, client: Client | None) -> str:
        """Why a message may not be retained, for its publisher; empty if it may. `older`: what it replaces."""
        if publish.size == 0:
            return ""  # it removes one
        if self._quotas.watermark.reached and (older is None or bytes_of(older) < bytes_to_be(publish)):
            self._quotas.note(client, MEMORY, 0, publish.received_at)
            return "PUBLISH to be retained while the broker's memory is above memory_watermark"
        if not self._quotas.active:
            return ""
        quota = self._quotas.of(None) if client is None or client.quota is None else client.quota
        key, limit = self._exceeded(publish, quota, self._usage(client))
        if limit:
            self._quotas.note(client, key, limit, publish.received_at)
            return f"PUBLISH to be retained beyond the quota of its user: {key} is {limit}"
        return ""

    def _exceeded(self, publish: Publish, quota: Quota, usage: Usage) -> tuple[str, int]:
        held = self._held.get(publish.topic)
        own = held if held is not None and held.usage is usage else None
        most = quota.max_retained_messages
        if 0 < most <= usage.retained_messages - (own is not None):
            return "max_retained_messages", most
        most = quota.max_retained_bytes
        if most and usage.retained_bytes + bytes_to_be(publish) - (own.bytes if own is not None else 0) > most:
            return "max_retained_bytes", most
        return "", 0

    def admits(self, publish: Publish, older: RetainedMessage | None, client_id: str) -> bool:
        """Whether a message may be retained in place of an older one; `client_id`: of its publisher."""
        return self.refusal(publish, older, self._clients.get(client_id)) == ""

    async def count(self) -> None:
        """Quotas have been switched on or off: count what is retained already, or nothing, in slices."""
        if self._quotas.active == self._counts:
            return
        self._counts = self._quotas.active
        slices = Slices()
        if self._counts:
            for number, message in enumerate(self._retained.each(), 1):
                if message.current and message.client_id:  # else it is of the broker itself
                    self.put(message)
                if number % STEP == 0:
                    await slices.breathe()
        while self._held and not self._counts:
            for _ in range(min(STEP, len(self._held))):
                self._release(self._held.popitem()[1])
            await slices.breathe()

    def put(self, message: RetainedMessage) -> None:
        """A message is retained, in place of an older one."""
        self.remove(message.topic)
        if self._quotas.active:
            usage = self._usage(self._clients.get(message.client_id))
            held = self._held[message.topic] = Held(usage, bytes_of(message))
            usage.retained_messages += 1
            usage.retained_bytes += held.bytes

    def remove(self, topic: bytes) -> None:
        """The message of a topic is not retained any more."""
        held = self._held.pop(topic, None)
        if held is not None:
            self._release(held)

    def _release(self, held: Held) -> None:
        held.usage.retained_messages -= 1
        held.usage.retained_bytes -= held.bytes
        self._quotas.release(held.usage)

    def _usage(self, client: Client | None) -> Usage:
        usage = None if client is None else client.usage
        return self._quotas.usage(None) if usage is None else usage
