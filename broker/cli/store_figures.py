"""The figures of `sluice store stats`, of one journal or of several."""

from collections.abc import Iterator

from broker.cluster.cell import number_of
from broker.storage.saved import Saved


class Figures:
    """What is in journals."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._retained = 0
        self._last = 0
        self._cells = 0

    def add(self, saved: Saved, cell: int) -> None:
        """Count what is in one; `cell`: 0 = it is that of one worker."""
        queues = saved.sessions.values()
        addresses = [each for each in queues if each.topic]
        groups = [each for each in queues if each.group]
        links = [each for each in queues if number_of(each.client_id)]
        pages = sum(each.deliveries.length for each in addresses)
        wills = sum(each.is_will() for each in queues)
        size = sum(frame.size for frame in saved.frames.values())
        live = saved.live_bytes()
        linked = sum(each.deliveries.length for each in links)
        self._counts = {
            "sessions": len(queues) - len(groups) - len(addresses) - len(links) - wills,
            "groups": len(groups),
            "deliveries": sum(each.deliveries.length for each in queues) - pages - linked,
            "linked": linked,
            "pages": pages,
            "frames": len(saved.frames),
            "size": size,
            "live": live,
            "dead": max(size - live, 0),
            "wills": wills,
        }
        self._retained, self._last, self._cells = len(saved.retained), saved.last_frame, int(cell > 0)

    def join(self, other: "Figures") -> None:
        """Count those of another one, too. All cells have all retained messages."""
        for name, count in other._counts.items():
            self._counts[name] = self._counts.get(name, 0) + count
        self._retained = max(self._retained, other._retained)
        self._last, self._cells = other._last, self._cells + other._cells

    def lines(self) -> Iterator[str]:
        """They as lines of text."""
        own = self._counts
        yield f"sessions    {own['sessions']}"
        yield f"groups      {own['groups']}"
        yield f"deliveries  {own['deliveries']}"
        yield f"pages       {own['pages']}"
        yield f"retained    {self._retained}"
        yield f"frames      {own['frames']}" + (f", the last one is {self._last}" if self._cells < 2 else "")
        yield f"bytes       {own['size']}: {own['live']} live, {own['dead']} dead"
        yield f"wills       {own['wills']}"
        if self._cells:
            yield f"in links    {own['linked']}"
