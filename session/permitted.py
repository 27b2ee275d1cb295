"""What waits for a session while the rights of its client change."""

from collections.abc import Callable

from protocol.publish import Publish
from session.holder import release
from session.outbound import Outbound


def check_waiting(outbound: Outbound, permits: Callable[[Publish], bool]) -> None:
    """Drop and count what waits and is not permitted: in the mailbox now, in the mqueue when it would be sent.

    What waits on disk (FC-30) is not read for it, and what is routed later costs no check unless it has to wait behind.
    """
    sender = outbound.sender
    mailbox = outbound.mailbox
    for publish in mailbox.take_all():
        if permits(publish):
            mailbox.add(publish)
            continue
        sender.counters.count_offered(publish.qos)
        sender.counters.count_drop("not_permitted", publish)
        if publish.holder is not None:
            release(publish)  # FC-24
    mqueue = outbound.mqueue
    if mqueue is not None and mqueue.length:
        mqueue.permits = permits
