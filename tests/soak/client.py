"""What publishers and subscribers have in common: connections at the level of packets, one after the other."""

import asyncio
import random
import time
from typing import Final

from protocol import properties as props
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq
from protocol.properties import Properties
from protocol.reason_codes import KEEP_ALIVE_TIMEOUT, QUOTA_EXCEEDED, SERVER_SHUTTING_DOWN, SESSION_TAKEN_OVER
from tests.soak.network import Link, LostError, Network
from tests.soak.observed import Observed

EXPIRY: Final = 3600
"""Seconds that kept sessions of MQTT 5 ask for."""
ALLOWED: Final = frozenset((SESSION_TAKEN_OVER, KEEP_ALIVE_TIMEOUT, QUOTA_EXCEEDED, SERVER_SHUTTING_DOWN))
"""Reasons for which the broker may disconnect: 0x97 is for slow consumers (FC-14), 0x8B for a restart."""


class Client:
    """One client. Give it a network, start `run`, and tell it `settle` when nothing goes wrong any more."""

    def __init__(
        self, client_id: str, version: int, kept: bool, keep_alive: int, network: Network, observed: Observed, key: str
    ) -> None:
        self.client_id = client_id
        self.version = version
        self.kept = kept
        self.observed = observed
        self.draws = random.Random(f"{key} {client_id}")
        self.settling = asyncio.Event()
        self.link: Link | None = None
        self._keep_alive = keep_alive
        self._network = network
        self._decoder = Decoder(version=version)
        self._arrived: list[Packet] = []
        self._connected_before = False

    @property
    def ready(self) -> bool:
        """Whether it has done all that it is to do while it settles."""
        raise NotImplementedError

    def settle(self) -> None:
        """Nothing goes wrong any more: come back if need be, and leave nothing open."""
        self.settling.set()

    async def run(self) -> None:
        """Connect, do what one does, and again, until cancelled."""
        while True:
            clean = self.begins_anew()
            try:
                connack = await self._connect(clean)
                self._check_present(connack, clean)
                await self._live(connack)
            except* LostError:
                pass
            self.on_lost()
            await self.away()

    async def away(self) -> None:
        """Stay offline for a while, but not any longer once all is to settle."""
        task = asyncio.current_task()
        while task is not None and task.uncancel():  # else Python before 3.11.3 ends the wait below as cancelled
            pass
        seconds = self.draws.expovariate(2) if self.draws.random() < 0.8 else self.draws.uniform(1, 4)
        try:
            async with asyncio.timeout(seconds):
                await self.settling.wait()
        except TimeoutError:
            pass

    async def end(self) -> None:
        """End the session, and the connection."""
        link = self.link
        if link is None or link.gone:
            link = await self._open(True, 0)
        elif self.kept and self.version == 4:
            link.cut()  # MQTT 3.1.1 ends a session by beginning another
            link = await self._open(True, 0)
        farewell = Disconnect(0, {props.SESSION_EXPIRY_INTERVAL: 0} if self.kept else None)
        await link.write(farewell.encode(self.version))
        link.close()

    # -- what they are about

    def begins_anew(self) -> bool:
        """Whether the next connection is to begin a new session."""
        return not self.kept

    async def session(self, connack: Connack) -> None:
        """Use the connection until it is lost."""
        raise NotImplementedError

    def on_lost(self) -> None:
        """The connection is gone."""

    def properties(self) -> Properties:
        """What CONNECT of MQTT 5 states besides the session's expiry."""
        return {}

    # -- packets

    async def receive(self) -> Packet:
        """Return the next packet."""
        while (packet := self._decoder.next_packet()) is None:
            assert self.link is not None
            self._decoder.feed(await self.link.read())
        if isinstance(packet, Disconnect):
            if packet.reason_code not in ALLOWED:
                self.breach(f"was disconnected with 0x{packet.reason_code:02X} {packet.properties}")
            raise LostError
        return packet

    async def send(self, data: bytes) -> None:
        """Write one or more packets."""
        assert self.link is not None
        await self.link.write(data)

    def breach(self, detail: str) -> None:
        """Note something that no broker may do."""
        self.observed.breaches.append(f"{self.client_id} {detail}")

    # -- connecting

    async def _connect(self, clean: bool) -> Connack:
        before = self.link
        if clean and self.kept and self.version == 4:
            # What begins with a clean session in MQTT 3.1.1 ends with its connection.
            before = await self._replace(before, True)
            await self._receive_connack()
            clean = False
        await self._replace(before, clean)
        return await self._receive_connack()

    async def _replace(self, before: Link | None, clean: bool) -> Link:
        """Open a connection, and only then close the one before, if that is still there: the session is taken over."""
        self.link = await self._open(clean, EXPIRY if self.kept else 0)
        if before is not None and not before.gone:
            before.close()
        return self.link

    async def _receive_connack(self) -> Connack:
        packet = await self.receive()
        if not isinstance(packet, Connack) or packet.reason_code:
            self.breach(f"was answered {packet!r} to its CONNECT")
            raise LostError
        return packet

    async def _open(self, clean: bool, expiry: int) -> Link:
        self._decoder = Decoder(version=self.version)
        properties: Properties | None = None
        if self.version == 5:
            properties = self.properties()
            if expiry:
                properties[props.SESSION_EXPIRY_INTERVAL] = expiry
        link = await self._network.connect(self.client_id)
        connect = Connect(self.client_id, clean, self._keep_alive, properties=properties, version=self.version)
        await link.write(connect.encode(self.version))
        return link

    def _check_present(self, connack: Connack, clean: bool) -> None:
        if clean and connack.session_present:
            self.breach("was told of a session that it has ended")
        if not clean and self._connected_before and not connack.session_present:
            self.breach("has lost its session")
        self._connected_before = self.kept

    async def _live(self, connack: Connack) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.session(connack))
            if self._keep_alive:
                tasks.create_task(self._ping())

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._keep_alive / 2)
            await self.send(Pingreq().encode(self.version))


def clock() -> float:
    """The time, in seconds."""
    return time.monotonic()
