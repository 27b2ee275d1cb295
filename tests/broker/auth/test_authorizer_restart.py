"""Rules and kept sessions over a restart (FC-27): decisions equal those before, and never allow more."""

import signal
from functools import partial
from pathlib import Path
from typing import Any

from broker.storage import records
from broker.storage.storage import Storage
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.local import LocalBroker
from tests.support.broker.logins import PASSWORDS, sections, write_users
from tests.support.broker.stored import KEPT, broker_on, on_disk, say
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

BOSS = {"permit": "allow", "topics": ["#"], "client_ids": ["boss"]}
INNER = {"permit": "allow", "topics": ["#"], "listeners": ["local"]}
"""What the listener of a local broker allows."""


def ruled(*own: dict[str, Any]) -> dict[str, Any]:
    """The section of these rules, which deny the rest."""
    return {"rules": list(own), "default": "deny"}


def waiting(local: LocalBroker, client_id: str) -> int:
    """How many deliveries wait for a client."""
    client = local.broker.clients.get(client_id)
    assert client is not None
    mqueue = client.session.outbound.mqueue
    return 0 if mqueue is None else mqueue.length


def come(local: LocalBroker, storage: Storage, listener: str = "local", client_id: str = "x") -> list[str]:
    """The topics of what the client of a kept session gets when it connects, and acknowledges."""
    client = local.client()
    client.connection.listener = listener
    connack, *came = say(local, storage, client, Connect(client_id, False, 0, properties=KEPT, version=5))
    assert isinstance(connack, Connack)
    assert connack.session_present
    got = [packet for packet in came if isinstance(packet, Publish)]
    say(local, storage, client, *[Puback(packet.packet_id) for packet in got])
    return [packet.topic.decode() for packet in got]


def publish(local: LocalBroker, storage: Storage, *names: str) -> None:
    """Publish by a client that may do everything."""
    boss = local.client()
    boss.connect("boss")
    for name in names:
        say(local, storage, boss, Publish(name.encode(), b"", 1, packet_id=1))
    boss.drop()


def test_user_and_roles(start: Start, tmp_path: Path) -> None:
    """What is published after kill -9, before the client has come back, is decided by its user and its roles."""
    users = write_users(tmp_path / "users", roles={"ann": ("operator",)})
    rules = [
        {"permit": "allow", "topics": ["of/{username}", "for/{role}"], "action": "subscribe"},
        {"permit": "allow", "topics": ["#"], "users": ["ben"]},
    ]
    own = sections(users, authorization={"rules": rules}, persistence={"directory": str(tmp_path / "journal")})

    def enter(broker: BrokerProcess, user: str, client_id: str) -> tuple[WireClient, bool]:
        client = WireClient(broker.address(), 5)
        secret = PASSWORDS[user].encode()
        client.send(Connect(client_id, False, 0, username=user, password=secret, properties=KEPT, version=5))
        return client, client.expect(Connack).session_present

    broker = start(sections=own)
    ann, _ = enter(broker, "ann", "x")
    with ann:
        ann.subscribe("#", qos=1)
    broker.ask_to_end(signal.SIGKILL)
    broker.stop()
    broker = start(sections=own)
    names = ["secret", "of/ann", "of/ben", "for/operator", "for/other"]
    ben, _ = enter(broker, "ben", "y")
    with ben:
        for packet_id, name in enumerate(names, 1):
            ben.send(Publish(name.encode(), b"", 1, packet_id=packet_id))
            matched = ben.expect(Puback).reason_code == 0
            assert matched == (name in ("of/ann", "for/operator"))
    ann, present = enter(broker, "ann", "x")
    with ann:
        assert present
        assert [ann.expect(Publish).topic for _ in range(2)] == [b"of/ann", b"for/operator"]
        ann.expect_nothing_more()
    ben, present = enter(broker, "ben", "x")
    with ben:
        assert not present  # it is another user's, and has been since before the restart


def test_another_user_does_not_resume(start: Start, tmp_path: Path) -> None:
    """A kept session is its user's also after a restart: another one with its client id begins a new one."""
    own = sections(write_users(tmp_path / "users"), persistence={"directory": str(tmp_path / "journal")})
    found = []
    for user in ("ann", "ben"):
        broker = start(sections=own)
        with WireClient(broker.address(), 5) as client:
            secret = PASSWORDS[user].encode()
            client.send(Connect("x", False, 0, username=user, password=secret, properties=KEPT, version=5))
            found.append(client.expect(Connack).session_present)
        broker.ask_to_end(signal.SIGKILL)
        broker.stop()
    assert found == [False, False]


def test_decided_before_its_client_comes(tmp_path: Path) -> None:
    """Nothing is queued for a restored session that its rules do not allow."""
    own = ruled(BOSS, {**INNER, "topics": ["mine/#"]})
    with broker_on(tmp_path, authorization=own) as (local, storage):
        say(local, storage, local.client(), Connect("x", False, 0, properties=KEPT, version=5), subscribe("#"))
    with broker_on(tmp_path, authorization=own) as (local, storage):
        publish(local, storage, "mine/a", "secret")
        assert waiting(local, "x") == 1
        assert come(local, storage) == ["mine/a"]
        on_disk(local, storage)


def test_will_of_a_bridge(tmp_path: Path) -> None:
    """A bridge that no rule allows anything and that does not come back after a restart is stated as not connected."""
    topic = b"$SYS/broker/connection/x/state"
    own = ruled()
    with broker_on(tmp_path, authorization=own) as (local, storage):
        will = Will(topic, b"0", 1, True)
        say(local, storage, local.client(4), Connect("x", False, will=will, version=4, bridge=True))
    with broker_on(tmp_path, authorization=own) as (local, _):
        local.pass_time(8000)  # the session expires
        assert local.broker.retained.get(topic) is not None


def subscribe(*filters: str) -> Subscribe:
    """SUBSCRIBE at QoS 1."""
    return Subscribe(1, [Subscription(each, 1) for each in filters])


def test_unknown_owner(tmp_path: Path) -> None:
    """Of a session that an older broker has kept, only the client id is known: it gets what any such client may get.

    What waits is decided when its client comes, and so are its shared subscriptions.
    """
    with broker_on(tmp_path) as (local, storage):
        journal = storage.journal
        number = journal.new_queue()
        local.run(lambda: journal.write(records.session(number, "old", 5, 3600, 0)))
        for each in subscribe("#", "$share/g/inner/#").subscriptions:
            local.run(partial(journal.write, records.subscribed(number, each)))
    rules = [
        BOSS,
        {"permit": "deny", "topics": ["all/but"], "users": ["somebody"]},
        {"permit": "allow", "topics": ["all/#"]},
        {"permit": "allow", "topics": ["own/{client_id}"]},
        {**INNER, "topics": ["inner/#"]},
    ]
    with broker_on(tmp_path, authorization=ruled(*rules)) as (local, storage):
        publish(local, storage, "all/but", "all/a", "own/old", "inner/a", "b")
        assert waiting(local, "old") == 2
        # The last one comes from the group.
        assert come(local, storage, client_id="old") == ["all/a", "own/old", "inner/a"]
        publish(local, storage, "inner/b")
    with broker_on(tmp_path, authorization=ruled(*rules)) as (local, storage):
        assert come(local, storage, client_id="old") == ["inner/b", "inner/b"]  # by "#", and from the group
        on_disk(local, storage)


def test_other_rules_after_the_restart(tmp_path: Path) -> None:
    """Deliveries that waited and that the rules no longer allow are dropped and counted, not sent."""
    with broker_on(tmp_path, authorization=ruled(INNER)) as (local, storage):
        x = local.client()
        say(local, storage, x, Connect("x", False, 0, properties=KEPT, version=5), subscribe("#"))
        x.drop()
        publish(local, storage, "a", "b", "c")
        on_disk(local, storage)
        assert waiting(local, "x") == 3
    with broker_on(tmp_path, authorization=ruled({"permit": "deny", "topics": ["b"]}, INNER)) as (local, storage):
        assert come(local, storage) == ["a", "c"]
        client = local.broker.clients.get("x")
        assert client is not None
        assert client.session.counters.drops == {"dropped_not_permitted_qos1": 1}
        on_disk(local, storage)


def test_shared_subscription_after_the_restart(tmp_path: Path) -> None:
    """A member that may no longer receive all that its group gets has left it when the broker has started."""
    group = "$share/g/a/#"
    with broker_on(tmp_path, authorization=ruled(INNER)) as (local, storage):
        say(local, storage, local.client(), Connect("x", False, 0, properties=KEPT, version=5), subscribe(group))
    others = ruled(BOSS, {"permit": "deny", "topics": ["a/b"]}, INNER)
    with broker_on(tmp_path, authorization=others) as (local, storage):
        assert group not in local.broker.router.shared.queues
        publish(local, storage, "a/b", "a/c")
        assert come(local, storage) == []
        on_disk(local, storage)


def test_delayed_will_after_the_restart(tmp_path: Path) -> None:
    """A will whose delay ends after the restart is published if its client's rights allow that."""
    will = Will(b"gone/x", b"will", 1, False, {props.WILL_DELAY_INTERVAL: 30})
    allowing = ruled(BOSS, {**INNER, "topics": ["gone/{client_id}"]})
    with broker_on(tmp_path, authorization=allowing) as (local, storage):
        say(local, storage, local.client(), Connect("x", False, 0, will=will, properties=KEPT, version=5))
    for own, expected in ((allowing, [b"gone/x"]), (ruled(BOSS), [])):
        with broker_on(tmp_path, authorization=own) as (local, storage):
            boss = local.client()
            boss.connect("boss")
            boss.send(subscribe("#"))
            assert boss.expect(Suback).reason_codes == [1]
            if own is allowing:  # once more for the next turn
                again = local.client()
                say(local, storage, again, Connect("x", False, 0, will=will, properties=KEPT, version=5))
                again.drop()
            local.pass_time(60)
            assert [packet.topic for packet in boss.received() if isinstance(packet, Publish)] == expected
            say(local, storage, local.client(), Connect("x", False, 0, will=will, properties=KEPT, version=5))


def test_resumed_with_fewer_rights(tmp_path: Path) -> None:
    """A kept session that is resumed where its client may do less gets none of what waits beyond that, and no group."""
    own = ruled(BOSS, INNER, {"permit": "allow", "topics": ["a"]})
    with broker_on(tmp_path, authorization=own) as (local, storage):
        x = local.client()
        say(local, storage, x, Connect("x", False, 0, properties=KEPT, version=5), subscribe("#", "$share/g/b"))
        x.drop()
        publish(local, storage, "a", "b")
        assert come(local, storage, "other") == ["a"]
        assert "$share/g/b" not in local.broker.router.shared.queues
        on_disk(local, storage)

