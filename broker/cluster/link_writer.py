"""How PUBLISHes go out on one connection of a link: in the version in which they are there already."""

from typing import final

from mypy_extensions import i64

from broker.cluster.controls import source
from broker.cluster.retained_order import LONGEST, RetainedOrder
from protocol.publish import Publish
from session.outbox import Outbox, Rewriter


@final
class LinkWriter(Rewriter):
    """Writes for one other cell; a new connection needs a new one."""

    def __init__(self, order: RetainedOrder) -> None:
        self.adds = LONGEST
        self.form = 5  # as the decoder of the other cell has it, until it is told of another one
        self._order = order
        self._flow: i64 = -1

    def rewritten(self, publish: Publish) -> Publish:
        """A retained message says when it was received."""
        return self._order.stamped(publish) if publish.retain else publish

    def next(self, publish: Publish, outbox: Outbox) -> Publish:
        """The same; the other cell is told of another version, or another publisher, before it."""
        form: i64 = 5
        if publish.retain:
            publish = self._order.stamped(publish)
        elif publish.properties is None and not publish.identifiers and publish.frame4 is not None:
            form = self.form if publish.frame5 is not None else 4
        if form != self.form or publish.flow != self._flow:
            self.form = form
            self._flow = publish.flow
            outbox.add_packet(source(int(form), publish.flow))
        return publish
