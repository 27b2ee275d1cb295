"""FC-33: an mqueue that is fair between flows."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protocol.publish import Publish
from session.fair_mqueue import QUANTUM, FairMQueue, cost_of, give_turns
from session.flows import PUBLISHER, UNKNOWN, USER, flow_lane, flow_of
from session.lanes import Lane
from session.limits import DROP_NEWEST, DROP_OLDEST, DROP_OLDEST_QOS0, Limits
from tests.support.session.messages import message, text_of

POLICIES = [DROP_OLDEST, DROP_OLDEST_QOS0, DROP_NEWEST]


def of_flow(flow: int, text: object, qos: int = 1, size: int = 0) -> Publish:
    """A message of one publisher."""
    publish = message(text, qos, size=size)
    publish.flow = flow
    return publish


def queue_of(flows: str, size: int = 100) -> FairMQueue:
    """A queue in which messages of these flows, each a digit, have joined in this order."""
    mqueue = FairMQueue(PUBLISHER)
    for number, flow in enumerate(flows):
        mqueue.append(of_flow(int(flow), number, size=size))
    return mqueue


def flows_of(mqueue: FairMQueue, count: int) -> str:
    """The flows of the next `count`, taken out."""
    return "".join(str(mqueue.pop().flow) for _ in range(count))


def test_a_quiet_publisher_does_not_wait_for_a_loud_one() -> None:
    """FC-33: what a publisher sends of which nothing waits is the next delivery, whatever the others have waiting."""
    mqueue = queue_of("1" * 1_000 + "2" * 1_000)

    for quiet in range(3, 103):
        mqueue.append(of_flow(quiet, "quiet"))
        assert mqueue.pop().flow == quiet


def test_who_sends_piece_by_piece_gets_no_more() -> None:
    """FC-33: a publisher that sends the next message when the last one is gone takes no more than its share."""
    mqueue = queue_of("1" * 1_000 + "2" * 1_000, size=448)
    sent = Counter[int]()
    for number in range(900):
        if number % 2 == 0:
            mqueue.append(of_flow(3, number, size=448))
        sent[mqueue.pop().flow] += 1

    assert max(sent.values()) - min(sent.values()) <= 2


def test_who_has_its_share_is_not_paced() -> None:
    """FC-16: with two flows each may have half of the limits, and only what exceeds that spends patience."""
    mqueue = queue_of("12")
    for limits in (Limits(max_mqueue_len=4), Limits(max_mqueue_len=0, max_mqueue_bytes=400)):
        assert not mqueue.exceeds_share(of_flow(1, "its share", size=100), limits)
    for limits in (Limits(max_mqueue_len=3), Limits(max_mqueue_len=0, max_mqueue_bytes=399)):
        assert mqueue.exceeds_share(of_flow(1, "more", size=100), limits)
    assert mqueue.exceeds_share(of_flow(3, "the third flow", size=100), Limits(max_mqueue_len=2))


def test_shares_are_equal_in_bytes() -> None:
    """FC-33: flows with a backlog are sent the same number of bytes, however large their messages are."""
    mqueue = FairMQueue(PUBLISHER)
    sizes = {1: 20, 2: 200, 3: 5_000}
    for flow, size in sizes.items():
        for number in range(300_000 // size):
            mqueue.append(of_flow(flow, number, size=size))
    sent: Counter[int] = Counter()

    while sum(sent.values()) < 300_000:
        publish = mqueue.pop()
        sent[publish.flow] += cost_of(publish.size)

    assert max(sent.values()) - min(sent.values()) <= 2 * cost_of(5_000)


def test_a_large_message_waits_for_its_share() -> None:
    """FC-33: before a message of 1 MiB the other flow sends as much."""
    mqueue = FairMQueue(PUBLISHER)
    mqueue.append(of_flow(1, "first"))
    mqueue.append(of_flow(2, "large", size=2**20))
    for number in range(3_000):
        mqueue.append(of_flow(1, number, size=1_000))

    before = 0
    while (publish := mqueue.pop()).flow == 1:
        before += cost_of(publish.size)

    assert abs(before - 2**20) < 5_000


def test_an_overflow_drops_from_the_longest_flow() -> None:
    """FC-33: a quiet publisher loses nothing to a loud one, by each policy."""
    for policy in POLICIES:
        mqueue = queue_of("1" * 95 + "23232")
        limits = Limits(max_mqueue_len=100, mqueue_overflow=policy)
        for number in range(50):
            for flow in (1, 1, 1, 2):
                arrival = of_flow(flow, number, size=100)
                while not mqueue.fits(arrival, limits):
                    victim = mqueue.victim(arrival, limits)
                    assert victim.flow == 1
                    if victim is arrival:
                        break
                else:
                    mqueue.append(arrival)
            if number % 2:
                mqueue.pop()


def test_flows_by_client_id_and_by_user() -> None:
    """FC-33: one of 1,024 lanes follows from the client id, or the user name; without a user name the client id.

    None of them is that of the broker's own messages.
    """
    first, second, nobody = flow_of("c1", "ann"), flow_of("c2", "ann"), flow_of("c1", "")

    assert flow_lane(first, PUBLISHER) != flow_lane(second, PUBLISHER)
    assert flow_lane(first, USER) == flow_lane(second, USER)
    assert flow_lane(first, PUBLISHER) == flow_lane(nobody, PUBLISHER) == flow_lane(nobody, USER)
    lanes = {flow_lane(flow_of(f"c{number}", ""), PUBLISHER) for number in range(20_000)}
    assert len(lanes) == 1_024
    assert UNKNOWN not in lanes


def test_what_returns_goes_first_in_its_flow() -> None:
    """FC-13, FC-33: what a member of a group gives back is the first of its flow."""
    mqueue = queue_of("2121")
    mqueue.pop()

    mqueue.push_front(of_flow(2, "back"))

    assert [text_of(publish) for publish in mqueue if publish.flow == 2] == ["back", "0", "2"]


def test_what_returns_waits_for_its_share() -> None:
    """FC-13, FC-33: a large delivery that comes back to the head of the flow whose turn it is ends that turn."""
    mqueue = queue_of("21")
    mqueue.push_front(of_flow(1, "back", size=1_000))

    assert flows_of(mqueue, 1) == "2"


def test_what_is_passed_over_keeps_one_delivery() -> None:
    """FC-33: a flow that has its turn while it is not open keeps what its next delivery costs, and no more."""
    mqueue = queue_of("1" * 10 + "2" * 10, size=64)
    assert mqueue.seek(lambda publish: publish.flow == 1)

    assert flows_of(mqueue, 10) == "1" * 4 + "2" * 5 + "1"


def test_a_round_may_end_where_a_flow_is_passed_over() -> None:
    """FC-33: a flow that has used up its share of a round has it again in the next one."""
    mqueue = queue_of("231", size=448)
    assert flows_of(mqueue, 1) == "1"
    assert mqueue.seek(lambda publish: publish.flow == 2)
    assert mqueue.seek(lambda publish: publish.flow == 3)
    mqueue.append(of_flow(1, "again", size=448))

    assert flows_of(mqueue, 1) == "1"


def test_the_largest_messages_take_no_longer() -> None:
    """FC-33: lanes whose heads are as large as MQTT allows get their turns at once, not in half a million rounds."""
    mqueue = FairMQueue(PUBLISHER)
    for flow in range(1, 1_001):
        head = of_flow(flow, flow)
        head.size = 1 << 28
        mqueue.append(head)
    assert len({mqueue.pop().flow for _ in range(1_000)}) == 1_000


deliveries = st.tuples(st.integers(1, 4), st.integers(0, 2), st.sampled_from([0, 10, 400, 2_000, 100_000]))
steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "push_front", "pop", "pop", "drop"]), deliveries),
    max_size=100,
)


@given(steps, st.sampled_from(POLICIES))
def test_books_and_order(taken: list[tuple[str, tuple[int, int, int]]], policy: str) -> None:
    """FC-9, FC-33: each flow leaves in the order of its arrival, the iterator says how, and the counts are right."""
    mqueue = FairMQueue(PUBLISHER)
    waiting: list[Publish] = []
    limits = Limits(mqueue_overflow=policy)
    for number, (step, (flow, qos, size)) in enumerate(taken):
        publish = of_flow(flow, number, qos, size)
        if step == "append":
            mqueue.append(publish)
            waiting.append(publish)
        elif step == "push_front":
            mqueue.push_front(publish)
            waiting.insert(0, publish)
        elif waiting:
            head = next(iter(mqueue))
            gone = mqueue.pop() if step == "pop" else mqueue.victim(publish, limits)
            if step == "pop":
                assert gone is head
                assert gone is next(each for each in waiting if each.flow == gone.flow)
            waiting = [each for each in waiting if each is not gone]
        assert Counter(map(id, mqueue)) == Counter(map(id, waiting))
        for each in range(1, 5):
            assert [p for p in mqueue if p.flow == each] == [p for p in waiting if p.flow == each]
        assert (mqueue.length, mqueue.bytes) == (len(waiting), sum(each.size for each in waiting))
        by_qos = Counter(each.qos for each in waiting)
        assert [mqueue.waiting_qos0, mqueue.waiting_qos1, mqueue.waiting_qos2] == [by_qos[0], by_qos[1], by_qos[2]]
    order = list(mqueue)
    assert [mqueue.pop() for _ in order] == order
    assert mqueue.turn is None


heads = st.tuples(st.sampled_from([0, 400, 2_000, 9_999]), st.integers(0, 3), st.integers(-1, 1))


@given(st.lists(heads, min_size=1))
def test_turns_at_once_are_those_of_rounds(missing: list[tuple[int, int, int]]) -> None:
    """FC-33: lanes that are given turns until one may send have what they would have after turns one by one."""
    lanes, costs = [], []
    for number, (size, rounds, more) in enumerate(missing):
        lane = Lane(number)
        lane.append(of_flow(number, "head", size=size))
        costs.append(cost_of(lane.head_size()))
        lane.left = costs[-1] - rounds * QUANTUM - more
        lanes.append(lane)
    have = [lane.left for lane in lanes]
    lacking = [left < cost for left, cost in zip(have, costs, strict=True)]
    step = 0
    while True:
        at = step % len(lanes)
        have[at] += QUANTUM * lacking[at]
        if have[at] >= costs[at]:
            break
        step += 1

    assert give_turns(lanes) is lanes[at]
    assert [lane.left for lane in lanes] == have
