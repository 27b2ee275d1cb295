"""FC-27: what of a session survives the process, and the session that goes on with it."""

from dataclasses import dataclass, field, replace

from tests.model.inbound import Pending
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.session import Model
from tests.model.state import Inflight
from tests.model.waiting import conflates


@dataclass
class Kept:
    """QoS 1 and 2 of window, mqueue and mailbox, and the ids whose PUBREL has not come."""

    window: list[Inflight] = field(default_factory=list)
    waiting: list[Message] = field(default_factory=list)
    remembered: list[int] = field(default_factory=list)


def keep(model: Model) -> Kept:
    """What would survive now, if all of it were on disk."""
    waiting = [message for message in model.mqueue.waiting + model.mailbox if message.qos]
    remembered = model.inbound.forgotten + [pending.packet_id for pending in model.inbound.awaiting_rel]
    return Kept([replace(inflight) for inflight in model.window], waiting, remembered)


def still_waiting(waiting: list[Message], knobs: Knobs, now: int) -> list[Message]:
    """What waited, in the order in which it came, each with its own flow; of some topics the newest only (FC-37)."""
    in_order = sorted(waiting, key=lambda message: message.number)
    newest = {message.topic: message for message in in_order}
    return [
        replace(message, restored_at=now, flow=message.publisher or message.flow)
        for message in in_order
        if not conflates(message.topic, knobs) or newest[message.topic] is message
    ]


def resume(knobs: Knobs, now: int, kept: Kept, model_type: type[Model] = Model) -> Model:
    """The session after the restart. Its books begin with what it has; limits drop none of it."""
    model = model_type(knobs, now)
    model.telling.away_since = now  # FC-34
    for inflight in kept.window:
        message = replace(inflight.message, restored_at=now)
        again = replace(inflight, message=message, sent_at=now, last_sent_at=now, here=False)
        model.window.append(again)
        model.last_id = inflight.packet_id
        model.books.count(f"routed_qos{message.qos}")
        model.books.count(f"sent_qos{message.qos}")
        model.books.count("sent_bytes", message.size)
        model.books.value(f"wait_qos{message.qos}_buckets", 0)
    model.books.highest("window_max", len(model.window))
    for message in still_waiting(kept.waiting, knobs, now):
        model.mqueue.join(message, model.books, last=True)
        model.books.count(f"routed_qos{message.qos}")
    bound = knobs.max_awaiting_rel or len(kept.remembered)
    overdue = max(len(kept.remembered) - bound, 0)
    model.inbound.forgotten = kept.remembered[:overdue]
    model.inbound.awaiting_rel = [Pending(2, packet_id, now, here=False) for packet_id in kept.remembered[overdue:]]
    return model
