"""The checker reports planted errors and no others."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.checker import Rules, Violation, check
from tests.soak.observed import ABANDONED, ACKNOWLEDGED, REFUSED, Message, Observed, Receipt, Seen

pytestmark = pytest.mark.once

GROUP = "$share/some/g/#"


def receipt(number: int, qos: int, topic: str = "t/1", *, dup: bool = False, again: bool = False) -> Receipt:
    """What a session has read of publisher 0."""
    return Receipt(0, number, topic, qos, dup, again)


def everything() -> Observed:
    """Twelve messages of each QoS in turn, and one session that has received them all."""
    session = Seen("reader", {"t/#": 2}, kept=True, subscribed_at=1.0)
    observed = Observed(sessions=[session])
    for number in range(12):
        add(observed, Message(0, number, "t/1", number % 3, 10))
        session.receipts.append(receipt(number, number % 3))
    return observed


def shared() -> Observed:
    """Six messages of QoS 2, divided between the two members of a group."""
    members = [Seen(name, {GROUP: 2}, kept=True, subscribed_at=1.0) for name in ("odd", "even")]
    observed = Observed(sessions=members)
    for number in range(6):
        add(observed, Message(0, number, "g/1", 2, 10))
        members[number % 2].receipts.append(receipt(number, 2, "g/1"))
    return observed


def add(observed: Observed, message: Message) -> None:
    """A message that was published once, after all had subscribed, and acknowledged."""
    message.first_sent_at = 2.0
    message.sent = 1
    message.outcome = ACKNOWLEDGED if message.qos else ""
    observed.messages[message.publisher, message.number] = message


def found(observed: Observed, rules: Rules | None = None) -> list[Violation]:
    """What the checker says."""
    return check(observed, rules or Rules())[0]


@pytest.mark.parametrize("make", [everything, shared])
def test_nothing_planted(make: Callable[[], Observed]) -> None:
    """Without an error nothing is reported."""
    assert found(make()) == []


@pytest.mark.parametrize("number", [1, 2, 11])
def test_loss(number: int) -> None:
    """An acknowledged QoS 1 or 2 message that did not arrive is reported."""
    observed = everything()
    del observed.sessions[0].receipts[number]
    (violation,) = found(observed)
    assert (violation.promise, violation.who, violation.messages) == ("no loss", "reader", (f"0:{number}",))


def test_loss_of_qos_0() -> None:
    """A lost QoS 0 message is no error."""
    observed = everything()
    del observed.sessions[0].receipts[3]
    assert found(observed) == []


@pytest.mark.parametrize("outcome", [REFUSED, ABANDONED])
def test_loss_of_what_was_not_accepted(outcome: str) -> None:
    """A lost message without an acknowledgement is no error."""
    observed = everything()
    del observed.sessions[0].receipts[1]
    observed.messages[0, 1].outcome = outcome
    assert found(observed) == []


def test_loss_before_subscribing() -> None:
    """A message published before the SUBACK need not arrive."""
    observed = everything()
    del observed.sessions[0].receipts[1]
    observed.messages[0, 1].first_sent_at = 0.5
    assert found(observed) == []


def test_loss_where_queues_are_short() -> None:
    """With short queues missing messages are counted, to be compared with the counters."""
    observed = everything()
    del observed.sessions[0].receipts[1:3]
    violations, missing = check(observed, Rules(lossless=False))
    assert violations == []
    (lost,) = missing.sessions
    assert (lost.surely, lost.perhaps) == ({1: 1, 2: 1}, {0: 0, 1: 1, 2: 1})


def test_loss_at_an_address() -> None:
    """FC-26: messages that an address may discard are counted once, for any number of sessions."""
    observed = everything()
    del observed.sessions[0].receipts[1]
    observed.sessions.append(replace(observed.sessions[0], client_id="other"))
    violations, missing = check(observed, Rules(discarding=("t/+",)))
    assert violations == []
    assert missing.discardable == 1


def test_duplicate_of_qos_2() -> None:
    """A QoS 2 message that arrives twice is reported, even with DUP."""
    observed = everything()
    observed.sessions[0].receipts.append(receipt(2, 2, dup=True))
    (violation,) = found(observed)
    assert (violation.promise, violation.messages) == ("exactly once", ("0:2",))


def test_repetition_of_qos_2() -> None:
    """The same packet identifier again is not a second message."""
    observed = everything()
    observed.sessions[0].receipts.insert(3, receipt(2, 2, dup=True, again=True))
    assert found(observed) == []


@pytest.mark.parametrize(("number", "dup", "wrong"), [(0, False, True), (1, False, True), (1, True, False)])
def test_duplicate_of_qos_0_and_1(number: int, dup: bool, wrong: bool) -> None:
    """FC-8: only QoS 1 with DUP may arrive again."""
    observed = everything()
    observed.sessions[0].receipts.append(receipt(number, number % 3, dup=dup))
    assert [violation.promise for violation in found(observed)] == ["FC-8 DUP"] * wrong


def test_publisher_sends_again() -> None:
    """FC-21: QoS 1 may arrive as often as it was published."""
    observed = everything()
    observed.messages[0, 1].sent = 2
    observed.sessions[0].receipts.append(receipt(1, 1))
    assert found(observed) == []


def test_disorder() -> None:
    """FC-9: two messages of a topic and QoS in the wrong order are reported."""
    observed = everything()
    receipts = observed.sessions[0].receipts
    receipts[4], receipts[7] = receipts[7], receipts[4]
    (violation,) = found(observed)
    assert (violation.promise, violation.messages) == ("FC-9 order", ("0:7 before 0:4",))


def test_disorder_of_different_qos() -> None:
    """FC-9: the order of messages at different QoS counts only with a window of one slot."""
    observed = everything()
    receipts = observed.sessions[0].receipts
    receipts[4], receipts[5] = receipts[5], receipts[4]
    assert found(observed) == []
    assert [violation.promise for violation in found(observed, Rules(one_at_a_time=True))] == ["FC-9 order"]


def test_disorder_of_what_was_refused_before() -> None:
    """A message that an address refused may be routed after later ones when it is sent again."""
    observed = everything()
    receipts = observed.sessions[0].receipts
    receipts[4], receipts[7] = receipts[7], receipts[4]
    observed.messages[0, 4].sent = 2
    assert found(observed, Rules(uncertain=("t/#",))) == []
    assert len(found(observed)) == 1


def test_wrong_content() -> None:
    """A message that was not published, another topic and another QoS are reported."""
    for wrong, promise in (
        (receipt(99, 0), "content"),
        (receipt(0, 0, "t/2"), "content"),
        (receipt(0, 1), "QoS"),
    ):
        observed = everything()
        observed.sessions[0].receipts[0] = wrong
        assert found(observed)[0].promise == promise


def test_no_answer() -> None:
    """A PUBLISH without an answer is reported."""
    observed = everything()
    observed.messages[0, 1].outcome = ""
    assert [(v.promise, v.messages) for v in found(observed)] == [("FC-21 answered", ("0:1",))]


def test_shared_loss() -> None:
    """FC-13: a message that no member of a group received is reported with the group."""
    observed = shared()
    del observed.sessions[1].receipts[0]
    (violation,) = found(observed)
    assert (violation.promise, violation.who, violation.messages) == ("FC-13 no loss", GROUP, ("0:1",))


def test_shared_duplicate() -> None:
    """FC-13: a QoS 2 message that two members received is reported."""
    observed = shared()
    observed.sessions[1].receipts.insert(0, receipt(0, 2, "g/1"))
    assert {(v.promise, v.who, v.messages) for v in found(observed)} == {
        ("exactly once", GROUP, ("0:0",)),
        ("FC-8 DUP", GROUP, ("0:0",)),
    }


def test_shared_disorder() -> None:
    """FC-9, FC-13: what one member gets is in order, unless the session of another has ended."""
    observed = shared()
    observed.sessions[0].receipts.reverse()
    assert [violation.promise for violation in found(observed)] == ["FC-9 order"]
    observed.sessions[1].ended = True
    assert found(observed) == []


def test_breach() -> None:
    """A protocol error that a client noticed is reported."""
    observed = everything()
    observed.breaches.append("reader was disconnected with 0x82")
    assert str(found(observed)[0]) == "protocol: a client: reader was disconnected with 0x82"
