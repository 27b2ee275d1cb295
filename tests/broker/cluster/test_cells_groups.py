"""Shared subscriptions with members at several cells (FC-13): the group has one queue, at its home."""

import itertools
from contextlib import ExitStack

import pytest

from broker.cluster.slots import home_of
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from tests.support.broker.cells import at_home, client_of, kill_cell
from tests.support.broker.restarting import KEPT, come_back
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

BOTH = (1, 2)


def group_at(cell: int, topic_filter: str) -> str:
    """A shared subscription whose home is this cell."""
    names = (f"$share/g{number}/{topic_filter}" for number in itertools.count())
    return next(name for name in names if home_of(name, 2) == cell)


def taken(client: WireClient) -> list[bytes]:
    """The payloads that have come so far; all are acknowledged to the end of the exchange."""
    client.send(Pingreq())
    came: list[bytes] = []
    exchanges, pinged = 0, False
    while exchanges or not pinged:
        packet = client.receive()
        if isinstance(packet, Publish):
            came.append(packet.payload)
            exchanges += packet.qos == 2
            if packet.qos:
                client.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            exchanges -= 1
            client.send(Pubcomp(packet.packet_id))
        else:
            assert isinstance(packet, Pingresp)
            pinged = True
    return came


class Takers:
    """Members of a group, and what each has got."""

    def __init__(self, *clients: WireClient) -> None:
        self.clients = clients
        self.came: list[list[bytes]] = [[] for _ in clients]

    def take(self, count: int) -> list[list[bytes]]:
        """Wait until they have got so many together."""

        def enough() -> bool:
            for came, client in zip(self.came, self.clients, strict=True):
                came += taken(client)
            return sum(map(len, self.came)) >= count

        wait_until(enough, f"{count} messages")
        for client in self.clients:
            assert taken(client) == []
        return self.came


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("home", BOTH)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_members_of_both_cells_share(broker: BrokerProcess, home: int, qos: int, version: int) -> None:
    """Each message from either cell comes to one member, all members get some, each in order."""
    topic = f"share{home}{qos}{version}"
    with ExitStack() as stack:
        enter = stack.enter_context
        members = [enter(client_of(broker, cell, f"{topic}-{n}", version)) for cell in BOTH for n in range(2)]
        for member in members:
            member.subscribe(group_at(home, f"{topic}/+"), qos=qos)
        publishers = [enter(client_of(broker, cell, f"{topic}-p", version)) for cell in BOTH]
        for number in range(100):
            for place, publisher in enumerate(publishers):
                publisher.publish(f"{topic}/t", b"%d %03d" % (place, number), qos)
        came = Takers(*members).take(200)
    sent = [b"%d %03d" % (place, number) for place in (0, 1) for number in range(100)]
    assert sorted(itertools.chain(*came)) == sorted(sent)
    assert min(map(len, came)) >= 25
    for own in came:
        for sender in (b"0", b"1"):
            of_one = [each for each in own if each.startswith(sender)]
            assert of_one == sorted(of_one)


@pytest.mark.parametrize("home", BOTH)
def test_a_member_that_goes_gives_back_what_it_has(broker: BrokerProcess, home: int) -> None:
    """FC-13: what it has not acknowledged at QoS 1 comes to a member of the other cell, in order."""
    name = group_at(home, f"back{home}")
    with client_of(broker, 1, "stays") as publisher, client_of(broker, 2, "heir") as heir:
        goes = client_of(broker, 1, "goes")
        goes.subscribe(name, qos=1)
        sent = [b"%d" % number for number in range(10)]
        for payload in sent:
            publisher.publish(f"back{home}", payload, 1)
        assert [goes.expect(Publish).payload for _ in sent] == sent
        heir.subscribe(name, qos=1)
        goes.disconnect()
        assert Takers(heir).take(10) == [sent]


@pytest.mark.parametrize("home", BOTH)
def test_an_unsubscribed_member_keeps_what_it_has(broker: BrokerProcess, home: int) -> None:
    """After UNSUBSCRIBE it gets no more; what it has it may still acknowledge, and nobody else gets it."""
    name, topic = group_at(home, f"unsub{home}"), f"unsub{home}"
    with ExitStack() as stack:
        publisher, member, other = (
            stack.enter_context(client_of(broker, cell, who)) for cell, who in ((1, "p"), (2, "m"), (1, "o"))
        )
        member.subscribe(name, qos=1)
        publisher.publish(topic, b"first", 1)
        first = member.expect(Publish)
        other.subscribe(name, qos=1)
        member.unsubscribe(name)
        for number in range(5):
            publisher.publish(topic, b"%d" % number, 1)
        assert Takers(other).take(5) == [[b"%d" % number for number in range(5)]]
        member.send(Puback(first.packet_id))
        member.expect_nothing_more()
        member.disconnect()
        other.expect_nothing_more()


@pytest.mark.parametrize("home", BOTH)
def test_a_member_that_acknowledges_nothing_holds_nobody_up(broker: BrokerProcess, home: int) -> None:
    """It gets as much as its window takes; a member of the other cell gets all the rest."""
    name = group_at(home, f"held{home}")
    with client_of(broker, 1, "p") as publisher, client_of(broker, 1, "a") as one, client_of(broker, 2, "b") as two:
        for stuck, busy in ((one, two), (two, one)):
            for member in (stuck, busy):
                member.subscribe(name, qos=1)
            for number in range(200):
                publisher.publish(f"held{home}", b"%d" % number, 1)
            came = Takers(busy).take(200 - 32)[0]
            rest = [stuck.expect(Publish) for _ in range(200 - len(came))]
            assert len(came) == 200 - 32
            for publish in rest:
                stuck.finish(publish)
            for member in (stuck, busy):
                member.unsubscribe(name)


@pytest.mark.parametrize("home", BOTH)
def test_what_comes_while_all_are_away_waits(journaled: BrokerProcess, home: int) -> None:
    """The group keeps it for whoever of its kept members comes back first, also over a kill of both cells."""
    name = group_at(home, "away")
    for cell in BOTH:
        with WireClient(journaled.address(), 5) as member:
            member.connect(next(at_home(cell, name="member")), clean_start=False, properties=KEPT)
            member.subscribe(name, qos=2)
            member.disconnect()
    sent = [b"%03d" % number for number in range(100)]
    for cell in BOTH:
        with client_of(journaled, cell, "p") as publisher:
            for payload in sent[cell - 1 :: 2]:
                publisher.publish("away", payload, 2)
    for position in (0, 1):
        kill_cell(journaled, position)
    with come_back(journaled, next(at_home(3 - home, name="member"))) as member:
        assert sorted(Takers(member).take(100)[0]) == sent


def test_a_killed_cell_gives_back_what_its_members_have(journaled: BrokerProcess) -> None:
    """FC-13: the home hands it to a member of another cell."""
    name = group_at(1, "dies")
    with client_of(journaled, 1, "p") as publisher, client_of(journaled, 1, "heir") as heir:
        dies = client_of(journaled, 2, "dies")
        dies.subscribe(name, qos=1)
        for number in range(10):
            publisher.publish("dies", b"%d" % number, 1)
        for _ in range(10):
            dies.expect(Publish)
        heir.subscribe(name, qos=1)
        kill_cell(journaled, 1)
        assert Takers(heir).take(10) == [[b"%d" % number for number in range(10)]]
        dies.close()


def test_members_go_on_when_the_home_is_killed(journaled: BrokerProcess) -> None:
    """They stay connected, and get what is published once the home is there again; what waited is not lost."""
    name = group_at(1, "home")
    with client_of(journaled, 2, "member") as member, client_of(journaled, 2, "p") as publisher:
        member.subscribe(name, qos=1)
        sent = [b"%03d" % number for number in range(60)]
        for payload in sent[:50]:
            publisher.publish("home", payload, 1)
        kill_cell(journaled, 0)
        for payload in sent[50:]:
            publisher.publish("home", payload, 1)
        came: list[bytes] = []

        def all_there() -> bool:
            came.extend(taken(member))
            return set(came) == set(sent)

        wait_until(all_there, "all messages")
