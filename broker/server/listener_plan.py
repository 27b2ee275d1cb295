"""What a reload does with each listener: it stays, with other settings perhaps, or is opened or closed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from config.models import Listener

SYSTEMD: Final = "systemd opens and closes this socket: restart the .socket unit and the broker"


class ListenerPlan(NamedTuple):
    """What has to be done."""

    applied: list[Listener]
    """All listeners there will be."""
    stay: list[tuple[Listener, Listener]]
    """Listeners whose sockets stay open, as they are and as they will be."""
    opened: list[Listener]
    closed: list[Listener]
    restart: dict[str, str]
    """Why a listener is not opened, moved or closed, by key."""

    @property
    def moved(self) -> list[tuple[Listener, Listener]]:
        """Those that are closed and opened elsewhere, as they are and as they will be."""
        closed = {listener.name: listener for listener in self.closed}
        return [(closed[listener.name], listener) for listener in self.opened if listener.name in closed]

    @property
    def gone(self) -> list[Listener]:
        """Those that are closed and not opened elsewhere."""
        names = {listener.name for listener in self.opened}
        return [listener for listener in self.closed if listener.name not in names]


def plan_listeners(old: Sequence[Listener], new: Sequence[Listener]) -> ListenerPlan:
    """A listener is the same one if it has the same name; it is opened anew if it is somewhere else."""
    plan = ListenerPlan([], [], [], [], {})
    before = {listener.name: listener for listener in old}
    units = {listener.address.unit for listener in old}
    for index, listener in enumerate(new):
        was = before.pop(listener.name, None)
        if was is not None and same_place(was, listener):
            plan.stay.append((was, listener))
            plan.applied.append(listener)
        elif (was is not None and was.address.unit) or (listener.address.unit and listener.address.unit not in units):
            plan.restart[f"listeners[{index}].bind"] = SYSTEMD
            if was is not None:
                plan.stay.append((was, was))
                plan.applied.append(was)
        else:
            plan.opened.append(listener)
            plan.applied.append(listener)
            if was is not None:
                plan.closed.append(was)
    taken = {listener.address.unit for listener in plan.opened}
    for listener in old:
        if listener.name not in before:
            continue
        if listener.address.unit and listener.address.unit not in taken:
            plan.restart[f"listeners ({listener.name})"] = SYSTEMD
            plan.stay.append((listener, listener))
            plan.applied.append(listener)
        else:
            plan.closed.append(listener)
    return plan


def same_place(one: Listener, other: Listener) -> bool:
    """Whether both are on the same sockets."""
    here, there = one.address, other.address
    return (here.host, here.port, here.path, here.unit) == (there.host, there.port, there.path, there.unit)
