"""Cells that break one rule each. What finds nothing wrong with these would find nothing wrong with broken cells."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from broker.cluster import cell_link, link_writer, retained_order
from broker.cluster.cell_link import CellLink
from broker.cluster.link_side import LinkSide
from broker.cluster.own_filters import OwnFilters
from config.cluster import LINKS
from protocol.ping import PINGREQ_BYTES
from session import outbound
from session.outbox import Outbox

Patch = pytest.MonkeyPatch


def forgets_to_resend(patch: Patch) -> None:
    """CL-3: what was on its way when a link broke is not sent again."""
    attach = CellLink.attach

    def broken(self: CellLink, connection: Any, other_has_one: bool, now: int) -> None:
        self.client.session.sender.window.clear(now)
        attach(self, connection, other_has_one, now)

    patch.setattr(CellLink, "attach", broken)


def forgets_received_ids(patch: Patch) -> None:
    """CL-3: QoS 2 is taken for new after a link broke."""
    attach = CellLink.attach
    patch.setattr(CellLink, "attach", lambda self, connection, _, now: attach(self, connection, False, now))


def answers_at_once(patch: Patch) -> None:
    """CL-1: SUBACK does not wait."""
    patch.setattr(OwnFilters, "unknown", lambda self, topic_filters: False)


def gives_up_early(patch: Patch) -> None:
    """CL-1: a cell whose link has broken is taken for dead."""
    lose = CellLink._lose

    def broken(self: CellLink, now: int) -> None:
        lose(self, now)
        self.gone()

    patch.setattr(CellLink, "_lose", broken)


def tells_no_filters_again(patch: Patch) -> None:
    """CL-1: filters are not told when a link is opened again."""
    patch.setattr(LinkSide, "_tell_all", lambda self, connection, link: connection.socket.write(PINGREQ_BYTES))


def never_ends_former(patch: Patch) -> None:
    """CL-1: filters that have ended while a link was down stay at the other cell."""
    patch.setattr(CellLink, "unsubscribed", lambda self, topic_filters: None)


def sends_on(patch: Patch) -> None:
    """CL-2: what has come over a link goes over links."""
    patch.setattr(outbound, "_is_link", lambda publisher: False)


def acknowledges_before_commit(patch: Patch) -> None:
    """CL-3: no acknowledgement waits for the journal."""
    patch.setattr(Outbox, "wait_for", lambda self, commit: None)


def drops(patch: Patch) -> None:
    """CL-4: the queue of a link is bounded, and drops its oldest."""
    patch.setitem(LINKS, "max_mqueue_bytes", 1_000)


def ignores_retained_order(patch: Patch) -> None:
    """The retained message that comes last counts, not the one that was received last."""

    def broken(self: Any, publish: Any) -> bool:
        retained_order._take(publish)
        return True

    patch.setattr(retained_order.RetainedOrder, "admits", broken)


def keeps_retained_to_itself(patch: Patch) -> None:
    """Only cells with a subscriber get a retained message."""
    patch.setattr(OwnFilters, "retained", lambda self, publish, publisher: self._order.stored(publish))


def never_says_the_version_again(patch: Patch) -> None:
    """SOURCE is not sent again when a link is opened again."""
    writers: dict[int, link_writer.LinkWriter] = {}

    def attach(self: CellLink, *arguments: Any) -> None:
        before = writers.get(id(self))
        original(self, *arguments)
        writer = self.client.session.outbox.rewriter
        assert isinstance(writer, link_writer.LinkWriter)
        if before is not None:
            writer.form, writer._flow = before.form, before._flow
        writers[id(self)] = writer

    original = CellLink.attach
    patch.setattr(CellLink, "attach", attach)


def begins_without_a_version(patch: Patch) -> None:
    """A new link does not say in which version its first PUBLISH is."""

    def broken(order: Any) -> link_writer.LinkWriter:
        writer = link_writer.LinkWriter(order)
        writer.form = 0
        return writer

    patch.setattr(cell_link, "LinkWriter", broken)


def forgets_who_waits(patch: Patch) -> None:
    """CL-1: what a link that is taken over was asked for is never answered."""
    attach = CellLink.attach

    def broken(self: CellLink, connection: Any, other_has_one: bool, now: int) -> None:
        before, self.connection = self.connection, None
        attach(self, connection, other_has_one, now)
        if before is not None:
            before.close(reason="the other cell has connected again")

    patch.setattr(CellLink, "attach", broken)


BROKEN: Final[list[Callable[[Patch], None]]] = [
    forgets_to_resend, forgets_received_ids, answers_at_once, gives_up_early, tells_no_filters_again, never_ends_former,
    sends_on, drops, ignores_retained_order, keeps_retained_to_itself, never_says_the_version_again, forgets_who_waits,
]  # fmt: skip
"""What two hundred seeds find."""
RARELY_SEEN: Final[list[Callable[[Patch], None]]] = [acknowledges_before_commit, begins_without_a_version]
"""What a thousand seeds find."""


@contextmanager
def breaking(break_it: Callable[[Patch], None]) -> Iterator[None]:
    """Meanwhile all cells break a rule."""
    with pytest.MonkeyPatch.context() as patch:
        break_it(patch)
        yield
