"""What is read of a persistence file of Mosquitto, of each version and layout, and what of it ends in the journal."""

from contextlib import closing
from pathlib import Path

from broker.storage.mosquitto_db.chunks import PersistenceFile
from broker.storage.mosquitto_db.contents import MosquittoState, NewBroker
from broker.storage.mosquitto_db.unreleased import release
from broker.storage.mosquitto_db.writing import write
from broker.storage.saved import Saved
from broker.storage.segments import Segments
from tests.support.broker.mosquitto_file import client, delivery, message, retained, start, subscription

NOW = 1_800_000_000


def read(content: bytes, *listeners: int, has_users: bool = True) -> MosquittoState:
    """What is in a file, for a broker with listeners on these ports."""
    broker = NewBroker(has_users, {port: f"at-{port}" for port in listeners or (1883,)})
    return MosquittoState(PersistenceFile(content), NOW, broker)


def journal(state: MosquittoState, folder: Path) -> Saved:
    """What is in the journal that a file becomes."""
    write(state, folder / "journal")
    saved = Saved()
    with closing(Segments(folder / "journal")) as segments:
        for number, content in segments.frames():
            saved.read(number, content)
    saved.finish()
    return saved


def test_version_5() -> None:
    """A file of Mosquitto 1.6 has sessions without users: whose they are is not known."""
    state = read(start(5) + message(3, b"t", b"x") + client(b"c", version=5) + delivery(3, b"c"))
    (session,) = state.sessions.values()
    assert (session.client_id, session.owner, len(session.queued)) == ("c", None, 1)


def test_32_bit_layout() -> None:
    """The structures of 32-bit x86 have less padding."""
    state = read(start(padded=False) + client(b"c", b"ann", padding=0) + subscription(b"c", b"a/#"))
    (session,) = state.sessions.values()
    assert session.owner is not None
    assert (session.client_id, session.owner.user, list(session.subscriptions)) == ("c", "ann", ["a/#"])


def owners(state: MosquittoState) -> list[str | None]:
    """Whose the sessions are: `?` = not known."""
    found = [session.owner for session in state.sessions.values()]
    return ["?" if owner is None else owner.user for owner in found]


def test_users_that_mosquitto_mixes_up() -> None:
    """A session with another one's user name and bytes of memory is nobody's; whose the next ones are is not known."""
    mixed = b"ann\0" + b"\xff" * 764
    content = client(b"a", b"ann") + client(b"b", mixed) + client(b"c", b"ann") + client(b"d", b"ben") + client(b"e")
    state = read(start() + content + client(b"f", b"ann"))
    assert owners(state) == ["ann", None, "?", "ben", None, "ann"]
    assert state.unknown_owners == 1


def test_owners() -> None:
    """Where nobody authenticates, sessions are nobody's; where the listener is not known, that is not known either."""
    content = start() + client(b"a", b"ann")
    assert owners(read(content, has_users=False)) == [None]
    assert owners(read(content, 1884, 1885)) == ["?"]
    (session,) = read(content, 1883, 1885).sessions.values()
    assert session.owner is not None
    assert (session.owner.user, session.owner.listener) == ("ann", "at-1883")


def test_what_has_expired_is_left_out(tmp_path: Path) -> None:
    """Sessions and messages whose time is over are counted, and are not in the journal; the rest keeps its time."""
    state = read(
        start()
        + message(1, b"old", b"x", expires_at=NOW, retain=1)
        + message(2, b"new", b"x", expires_at=NOW + 60, retain=1)
        + client(b"gone", interval=100, expires_at=NOW)
        + delivery(2, b"gone")
        + client(b"brief", interval=0)
        + client(b"stays", interval=100, expires_at=NOW + 1)
        + delivery(1, b"stays")
        + delivery(2, b"stays")
        + subscription(b"gone", b"#")
        + retained(1)
        + retained(2)
    )
    assert (list(state.sessions), list(state.retained)) == ([b"stays"], [b"new"])
    assert (len(state.ended), state.of_ended, state.expired, state.dangling) == (2, 1, 1, 0)
    saved = journal(state, tmp_path)
    (session,) = saved.sessions.values()
    assert (session.expiry, session.detached_at, session.deliveries.length) == (100, (NOW - 99) * 1_000_000, 1)
    (kept,) = saved.retained.values()
    assert (kept.saved.expires_at, kept.publish.properties) == ((NOW + 60) * 1_000_000, {2: 60})


def test_persistent_client_expiration(tmp_path: Path) -> None:
    """A session that would not end, but for persistent_client_expiration, ends when Mosquitto would have ended it."""
    (session,) = journal(read(start() + client(b"c", expires_at=NOW + 1000)), tmp_path).sessions.values()
    assert (session.expiry, session.detached_at) == (1000, NOW * 1_000_000)


def test_what_is_in_flight(tmp_path: Path) -> None:
    """Packet ids and phases are kept; what has none, or one that another delivery has, waits behind."""
    phases = [(3, 1, 0), (5, 2, 0), (9, 2, 1), (6, 2, 1), (2, 1, 0)]
    deliveries = [delivery(n, b"c", 10 + n, qos, state) for n, (state, qos, _) in enumerate(phases)]
    twice = delivery(7, b"c", 10, 1, 3) + delivery(8, b"c", 0, 2, 5)
    messages = b"".join(message(n, b"t", b"%d" % n, 2) for n in range(9))
    saved = journal(read(start() + messages + client(b"c") + b"".join(deliveries) + twice), tmp_path)
    (session,) = saved.sessions.values()
    assert session.inflight == {number: 10 + number for number in range(5)}
    assert session.received == {2, 3}
    assert session.deliveries.length == 7


def test_shared_subscriptions(tmp_path: Path) -> None:
    """A shared subscription, if a file has one, gets a queue that is kept."""
    content = client(b"a") + client(b"b") + subscription(b"a", b"$share/g/t") + subscription(b"b", b"$share/g/t")
    saved = journal(read(start() + content), tmp_path)
    assert [session.group for session in saved.sessions.values()] == ["", "", "$share/g/t"]


def test_unreleased_messages(tmp_path: Path) -> None:
    """What a publisher has not released goes to whoever has subscribed, once, and its packet id is remembered."""
    content = (
        message(1, b"t", b"x", 2, publisher=b"p", retain=1)
        + message(2, b"t", b"", 2, publisher=b"p", retain=1)
        + client(b"p")
        + delivery(1, b"p", 5, 2, 7, direction=0)
        + client(b"r")
        + delivery(2, b"p", 6, 2, 7, direction=0)
        + subscription(b"p", b"t", 2, 4)
        + subscription(b"r", b"#", 1, 8, 7)
        + subscription(b"r", b"t", 2, 0, 8)
    )
    state = read(start() + content)
    assert release(state) == 2
    publisher, receiver = state.sessions.values()
    assert (publisher.queued, list(publisher.incoming)) == ([], [5, 6])
    assert [(each.message, each.qos, each.retain, each.identifiers) for each in receiver.queued] == [
        (1, 2, True, b"\x0b\x08\x0b\x07"),
        (2, 2, True, b"\x0b\x08\x0b\x07"),
    ]
    assert state.retained == {}
    saved = journal(state, tmp_path)
    assert [list(session.remembered) for session in saved.sessions.values()] == [[5, 6], []]


def test_messages_that_are_missing() -> None:
    """A delivery whose message is not in the file is counted, as Mosquitto leaves it out too."""
    state = read(start() + client(b"c") + delivery(5, b"c") + retained(6))
    assert (state.dangling, state.retained) == (2, {})


def test_qos_0_is_not_kept() -> None:
    """Waiting messages of QoS 0 are counted."""
    state = read(start() + message(1, b"t", b"x", 0) + client(b"c") + delivery(1, b"c", 0, 0))
    (session,) = state.sessions.values()
    assert (state.qos0, session.queued) == (1, [])


def test_long_frames(tmp_path: Path) -> None:
    """More than a frame may have is in several, and all of it is there."""
    content = b"".join(message(n, b"t/%d" % n, bytes(3_000_000), retain=1) + retained(n) for n in range(8))
    saved = journal(read(start() + content), tmp_path)
    assert (len(saved.retained), len(saved.frames) > 1) == (8, True)


def test_bridges_of_later_versions() -> None:
    """A bridge's own session is left out, though Mosquitto 2.0.21 saves it as lasting; a client may be called so."""
    content = client(b"local.host.up", port=0) + client(b"local.meter") + client(b"old", port=0)
    state = read(start() + content)
    assert list(state.ended) == [b"local.host.up"]
    assert [session.client_id for session in state.sessions.values()] == ["local.meter", "old"]


def test_clients_with_names_of_bridges() -> None:
    """A file of version 5 names no ports: a session called like a bridge's may be a client's, and is taken over."""
    state = read(start(5) + client(b"local.meter", version=5))
    assert [session.client_id for session in state.sessions.values()] == ["local.meter"]
