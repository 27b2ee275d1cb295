"""What waits for a session while the rights of its client change: in the mailbox and in the mqueue."""

from protocol.publish import Publish
from session.address import Address, AddressRule
from session.limits import Limits
from session.permitted import check_waiting
from tests.support import costs
from tests.support.session.messages import message, texts
from tests.support.session.peer import Peer


def only_open(publish: Publish) -> bool:
    """What the client may receive now."""
    return not publish.payload.startswith(b"shut")


def held(text: str, address: Address) -> Publish:
    """A delivery of an address."""
    publish = message(text, 1)
    publish.holder = address
    return publish


def test_mailbox() -> None:
    """What no pass has taken yet is dropped at once, and counted as offered and dropped."""
    peer = Peer()
    for text in ("shut", "open", "shut"):
        peer.route(message(text, 0))
    check_waiting(peer.outbound, only_open)
    assert peer.outbound.mailbox.length() == 1
    assert texts(peer.run()) == ["open"]
    counters = peer.take_counters()
    assert (counters.offered_qos0, counters.uncommon.dropped_qos0) == (3, 2)
    assert counters.drops == {"dropped_not_permitted_qos0": 2}


def test_mqueue() -> None:
    """What waits in the mqueue is decided when it would be sent; when all has gone, nothing is checked any more."""
    peer = Peer(Limits(max_inflight=1))
    for text in ("first", "shut", "open", "shut"):
        peer.deliver(text, qos=1)
    check_waiting(peer.outbound, only_open)
    assert texts(peer.puback(1)) == ["open"]
    assert texts(peer.puback(2)) == []
    assert peer.take_counters().drops == {"dropped_not_permitted_qos1": 2}
    peer.deliver("shut", qos=1)
    assert peer.window_ids() == [3]
    peer.deliver("shut", qos=1)
    assert texts(peer.puback(3)) == ["shut"]


def test_address() -> None:
    """FC-24: what is dropped has left its address, from the mailbox at once, from the mqueue in its turn."""
    address = Address(b"t", AddressRule(100))
    peer = Peer(Limits(max_inflight=1))
    for text in ("sent", "shut"):
        peer.route(held(text, address))
    peer.run()
    peer.route(held("shut", address))
    assert address.size == costs.held(3, 4, "t")
    check_waiting(peer.outbound, only_open)
    assert address.size == costs.held(2, 4, "t")
    peer.puback(1)
    assert address.size == 0
