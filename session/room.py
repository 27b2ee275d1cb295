"""FC-34: whether window and mqueue have room for QoS 1 and 2 deliveries, before they are offered."""

from mypy_extensions import i64

from protocol.publish import Publish
from session import qos0_gate
from session.flows import FIFO
from session.limits import PACKET_IDS, Limits
from session.mailbox import Mailbox
from session.mqueue import MQueue
from session.sender import Sender


def has_room(sender: Sender, mailbox: Mailbox, mqueue: MQueue, publish: Publish, places: i64, now: int) -> bool:
    """Whether a session has room for so many deliveries of `publish`, behind what is in its mailbox."""
    if _places(sender, mailbox, mqueue, publish, 1, now) >= places:
        return True
    if not is_below_share(mqueue, publish, sender.limits):
        return False
    return _places(sender, mailbox, mqueue, publish, 2, now) >= places


def has_any_room(sender: Sender, mailbox: Mailbox, mqueue: MQueue, now: int) -> bool:
    """Whether it has room for a delivery of one byte."""
    return _places(sender, mailbox, mqueue, None, 1, now) > 0


def has_any_place(mqueue: MQueue, limits: Limits) -> bool:
    """The same of the queue of a group."""
    if limits.max_mqueue_len and mqueue.length >= limits.max_mqueue_len:
        return False
    return not limits.max_mqueue_bytes or mqueue.bytes < limits.max_mqueue_bytes


def is_below_share(mqueue: MQueue, publish: Publish, limits: Limits) -> bool:
    """FC-33: whether `publish` may join a full queue: a quiet publisher is not told that a loud one has filled it."""
    return limits.fairness != FIFO and not mqueue.exceeds_share(publish, limits) and mqueue.fits(publish, limits, 2)


def _places(sender: Sender, mailbox: Mailbox, mqueue: MQueue, publish: Publish | None, times: i64, now: int) -> i64:
    """How many deliveries have room if the mqueue has so many `times` its limits. None: a delivery of one byte.

    In the mailbox QoS 0 counts too: so the result is never too high.
    """
    in_mailbox: i64 = mailbox.length()
    in_window = _window_places(sender, mqueue, publish, now)
    if in_mailbox < in_window:
        return in_window - in_mailbox + _mqueue_places(mailbox, mqueue, sender.limits, publish, 0, times)
    return _mqueue_places(mailbox, mqueue, sender.limits, publish, in_mailbox - in_window, times)


def _window_places(sender: Sender, mqueue: MQueue, publish: Publish | None, now: int) -> i64:
    """How many deliveries can be sent at once."""
    if mqueue.length or not sender.is_open():
        return 0
    if sender.throttle is not None:
        return 1 if publish is None or sender.limited_by(publish, now) == qos0_gate.OPEN else 0
    return sender.window.limit - len(sender.window.entries)


def _mqueue_places(
    mailbox: Mailbox, mqueue: MQueue, limits: Limits, publish: Publish | None, coming: i64, times: i64
) -> i64:
    """How many deliveries an mqueue has room for, once the last ones of the mailbox have joined it."""
    length: i64 = mqueue.length + coming
    waiting: i64 = mqueue.bytes
    size: i64 = 1
    if publish is not None:
        size = max(publish.size, 1)
        older = None if mqueue.newest is None else mqueue.newest.older(publish)
        if older is not None:  # FC-37: it goes
            length -= 1
            waiting -= older.size
    places: i64 = limits.max_mqueue_len * times - length if limits.max_mqueue_len else PACKET_IDS
    if limits.max_mqueue_bytes and places > 0:  # else the sizes need not be added up
        if coming:
            waiting += sum([each.size for each in mailbox.deliveries[-coming:]])
        places = min(places, (limits.max_mqueue_bytes * times - waiting) // size)
    return max(places, 0)
