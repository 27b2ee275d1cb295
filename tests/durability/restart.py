"""Starts a broker on what a power cut has left, lets all clients reconnect, and compares with what they knew before."""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.persistence import Persistence, open_persistence
from config.models import Config
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.durability.client import LedgerError
from tests.durability.outside import Name, Outside, Session, matches, split
from tests.support.broker.local import LocalBroker, LocalClient

KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: 3_600}

PATIENCE: Final = 3.0
"""Seconds within which everything has to arrive."""

PROBES: Final = 20
"""Filters that match the topics of all publishers."""

QUIET: Final = 3
"""So many checks in a row without anything new end the waiting."""


class Player:
    """A client that reconnects to its session, and keeps to the standard."""

    def __init__(self, local: LocalBroker, session: Session) -> None:
        self.session = session
        self.present = False
        self.raw: set[Name] = set()
        """Every PUBLISH since it reconnected."""
        self.came = {topic: list(payloads) for topic, payloads in session.came.items()}
        """What the session had received before, and what came since, without retained messages."""
        self.retained: dict[str, bytes] = {}
        self.waits: set[int] = set()
        """Packet ids of its PUBLISHes that are not acknowledged completely."""
        self.shares = any(split(each)[0] for each in session.subscriptions)
        """Whether it is a member of a group. A delivery that was not written yet may go to another member."""
        self._incoming = set(session.incoming)
        self._released: set[int] = set()
        self._client: LocalClient = local.client()
        self._to_send: list[Packet] = [Connect(session.name, False, 0, properties=KEPT, version=5)]

    def send(self, packet: Packet) -> None:
        """Send to the broker with the next write."""
        self._to_send.append(packet)

    def publish(self, publish: Publish) -> None:
        """Publish it, and wait for the acknowledgement."""
        if publish.qos:
            self.waits.add(publish.packet_id)
        self.send(publish)

    def resend(self, rng: random.Random) -> None:
        """All that is not acknowledged; a PUBREC may have been lost on its way, or not."""
        for packet_id, publish in self.session.outgoing.items():
            self.waits.add(packet_id)
            knows = packet_id in self.session.received and rng.random() < 0.5
            if knows or packet_id in self.session.released:
                self._released.add(packet_id)
                self.send(Pubrel(packet_id))
            else:
                again = Publish(publish.topic, publish.payload, publish.qos, publish.retain, packet_id=packet_id)
                again.dup = True
                self.send(again)

    def pump(self) -> bool:
        """Answer what has come; returns whether anything came or was sent."""
        packets = self._client.received()
        for packet in packets:
            self._handle(packet)
        if self._client.gone:
            raise LedgerError(f"the broker has closed the connection of {self.session.name}: {packets}")
        sending, self._to_send = self._to_send, []
        if sending:
            self._client.send(*sending)
        return bool(packets or sending)

    def _handle(self, packet: Packet) -> None:
        if isinstance(packet, Connack):
            self.present = packet.session_present
        elif isinstance(packet, Publish):
            self._receive(packet)
        elif isinstance(packet, Pubrel):
            self._incoming.discard(packet.packet_id)
            self.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Pubrec):
            if packet.reason_code >= 0x80:
                raise LedgerError(f"{self.session.name}: {packet}")
            self.send(Pubrel(packet.packet_id))
        elif isinstance(packet, Puback | Pubcomp):
            self.waits.discard(packet.packet_id)
        elif not isinstance(packet, Suback):
            raise LedgerError(f"{self.session.name} has got {packet}")

    def _receive(self, publish: Publish) -> None:
        name = publish.topic.decode(), publish.payload
        if publish.retain:
            self.retained[name[0]] = publish.payload
        else:
            self.raw.add(name)
        if publish.qos == 1:
            self.send(Puback(publish.packet_id))
        elif publish.qos == 2:
            is_new = publish.packet_id not in self._incoming
            self._incoming.add(publish.packet_id)
            self.send(Pubrec(publish.packet_id))
            if not is_new:
                return
        if not publish.retain:
            self.came.setdefault(name[0], []).append(name[1])


class Restart:
    """One start after a power cut."""

    def __init__(self, directory: Path, outside: Outside, rng: random.Random, patience: float = PATIENCE) -> None:
        """`directory`: the journal; `outside`: what clients knew at the power cut."""
        self._patience = patience
        self._outside = outside
        self._rng = rng
        self._players: dict[str, Player] = {}
        self._probes: list[tuple[Name, str, bool]] = []
        # A machine that is stopped for minutes must not make it forget packet ids (FC-22).
        session = {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity", "await_rel_timeout": "infinity"}
        sections = {"persistence": {"directory": str(directory)}, "session": session}
        persistence = open_persistence(Config.model_validate(sections))
        assert persistence is not None
        self._persistence: Persistence = persistence
        self._local = LocalBroker(persistence.journal, **sections)

    def check(self) -> None:
        """Raise LedgerError if anything differs from what was acknowledged."""
        with self._local as local:
            local.run(lambda: self._persistence.restore(local.broker))
            try:
                self._check_retained()
                self._come_back(with_will=False)
                self._local.pass_time(9)  # then wills without a delay are published (FC-27)
                self._come_back(with_will=True)
                self._settle(self._missing)
                self._probe()
                self._settle(self._missing)
                self._check_once()
            finally:
                local.complete(self._persistence.close())

    def _check_retained(self) -> None:
        """FC-27: a topic retains what was acknowledged last, or what has been published since."""
        late = Player(self._local, Session("late, after the restart"))
        late.send(Subscribe(1, [Subscription("#", 1)]))
        self._players = {"late": late}
        retained = self._outside.retained

        def missing() -> str:
            for topic, allowed in retained.items():
                if (came := late.retained.get(topic, b"")) not in allowed:
                    return f"{topic} retains {came!r}, not {allowed}"
            return ""

        self._settle(missing)
        late.session.kept = False
        self._players = {}

    def _come_back(self, *, with_will: bool) -> None:
        """Those come back that were connected with a will, or the others."""
        players = {
            name: Player(self._local, session)
            for name, session in self._outside.sessions.items()
            if session.kept is not None and (session.will is not None) == with_will
        }
        self._players |= players
        self._settle(lambda: "")
        for name, player in players.items():
            if player.session.kept and not player.present:
                raise LedgerError(f"the session of {name} is gone")
            if player.present and player.session.kept is False:
                raise LedgerError(f"the session of {name} has come back to life")
            if player.session.kept:
                player.resend(self._rng)

    def _probe(self) -> None:
        """Publish to every filter with a packet id that is free again: who gets it shows who is subscribed."""
        players = [player for player in self._players.values() if player.session.kept]
        filters = sorted(self._outside.filters())
        for number, topic_filter in enumerate(self._rng.sample(filters, min(len(filters), PROBES))):
            publisher = players[number % len(players)]
            topic = split(topic_filter)[1].replace("#", "probe").replace("+", "probe")
            used = sorted(publisher.session.used - set(publisher.session.outgoing) - publisher.waits)
            packet_id = used[0] if used else 60_000 + number
            name = (topic, b"probe %d" % number)
            publisher.publish(Publish(topic.encode(), name[1], 2, packet_id=packet_id))
            for player in players:
                subscriptions = player.session.subscriptions.items()
                states = [state for each, state in subscriptions if matches(split(each)[1], topic)]
                if None not in states and not any(split(each)[0] for each, _ in subscriptions):
                    self._probes.append((name, player.session.name, any(states)))

    def _missing(self) -> str:
        """What has not come yet; empty if all is there."""
        for player in self._players.values():
            if player.waits:
                return f"{player.session.name}: {sorted(player.waits)[:5]} are not acknowledged"
        for name, who, wanted in self._probes:
            if wanted and name not in self._players[who].raw:
                return f"{who} does not get {name}: its subscription is lost"
        published = {
            (publish.topic.decode(), publish.payload)
            for player in self._players.values()
            if player.session.kept
            for publish in player.session.outgoing.values()
        }
        got: dict[str, set[Name]] = {}
        for name, message in self._outside.messages.items():
            if not message.acknowledged and name not in published:
                continue
            for owed in message.owed:
                if owed not in got:
                    got[owed] = self._got(owed)
                if name not in got[owed]:
                    return f"{name} is lost for {owed}"
        for session in self._outside.sessions.values():
            will = session.will
            if will is not None and session.kept and not self._will_came((will.topic.decode(), will.payload)):
                return f"the will of {session.name} is lost"
        return ""

    def _got(self, owed: str) -> set[Name]:
        """What has certainly come to a session or group: confirmed before the power cut, or sent since."""
        players = [self._players[each.name] for each in self._outside.receivers(owed) if each.kept is not None]
        return set().union(*(player.session.confirmed | player.raw for player in players))

    def _will_came(self, name: Name) -> bool:
        wanting = [
            player
            for player in self._players.values()
            if player.session.kept
            and any(state and matches(each, name[0]) for each, state in player.session.subscriptions.items())
        ]
        return all(name[1] in player.came.get(name[0], []) for player in wanting)

    def _check_once(self) -> None:
        """QoS 2 came once, to a session and to a group; in order; nothing came to non-subscribers."""
        for name, who, wanted in self._probes:
            if not wanted and name in self._players[who].raw:
                raise LedgerError(f"{who} gets {name}, though it is not subscribed any more")
        for player in self._players.values():
            for topic, payloads in player.came.items():
                first = list(dict.fromkeys(payloads))
                numbers = [payload for payload in first if b" of " in payload]  # no order is required of the others
                if numbers != sorted(numbers) and not player.shares:
                    raise LedgerError(f"{topic} to {player.session.name}: out of order")
                if topic.endswith("2") and len(first) != len(payloads):
                    raise LedgerError(f"{topic} to {player.session.name}: came twice at QoS 2")
            for topic_filter in player.session.subscriptions:
                if group := split(topic_filter)[0]:
                    self._check_group(group)

    def _check_group(self, group: str) -> None:
        members = [self._players[each.name] for each in self._outside.members(group) if each.name in self._players]
        for topic in {topic for member in members for topic in member.came if topic.endswith("2")}:
            payloads = [payload for member in members for payload in member.came.get(topic, [])]
            if len(set(payloads)) != len(payloads):
                raise LedgerError(f"{topic} to the group {group}: came twice at QoS 2")

    def _settle(self, missing: Callable[[], str]) -> None:
        """Let the broker run until nothing is missing, and nothing more comes. Raises LedgerError."""
        waited = 0.0
        quiet = 0
        while quiet < QUIET:
            quiet = 0 if self._pump() else quiet + 1
            if quiet == QUIET and (what := missing()):
                if waited > self._patience:
                    raise LedgerError(what)
                began = time.monotonic()
                self._local.complete(asyncio.sleep(0.01))
                waited += min(time.monotonic() - began, 0.1)  # the machine may have been stopped
                quiet = 0

    def _pump(self) -> bool:
        """Let the disk thread finish its jobs, then let every client answer."""
        self._local.complete(self._persistence.journal.commits.reach())
        self._local.run(lambda: None)
        came = [player.pump() for player in self._players.values()]
        return any(came)
