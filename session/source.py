"""What a session pulls deliveries from when its way is free, besides its own mqueue."""

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from session.outbound import Outbound

EMPTY: Final = 0
"""Nothing is left: the source says when there is more."""
FED: Final = 1
"""It has handed over what the session could take, and has more."""
PASSED_OVER: Final = 2
"""It has something, of which the session could take nothing."""
BREATHER: Final = 3
"""It could go on at once, but has worked long enough for one turn."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Source:
    """A shared queue (FC-13), or the retained messages of new subscriptions."""

    def pull(self, outbound: "Outbound", now: int) -> int:
        """Hand over what the session can send in this pass. Returns EMPTY, FED, PASSED_OVER or BREATHER."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
