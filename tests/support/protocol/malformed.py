"""A catalogue of packets that a broker must refuse, with the reason code that says why.

Each case is a whole packet that a client sends: a CONNECT as its first packet, any other after a CONNECT of
that version. The names carry the statement of the standard that is broken, where it has a number.
"""

from typing import Final

from .malformed_case import Malformed
from .malformed_connect import CONNECT
from .malformed_others import OTHERS
from .malformed_publish import ACKNOWLEDGEMENTS, PUBLISH
from .malformed_subscribe import SUBSCRIBE, UNSUBSCRIBE

__all__ = ["MALFORMED", "SECOND_CONNECT", "Malformed"]

MALFORMED: Final[list[Malformed]] = [
    *CONNECT,
    *PUBLISH,
    *ACKNOWLEDGEMENTS,
    *SUBSCRIBE,
    *UNSUBSCRIBE,
    *(case for case in OTHERS if not case.is_connect),
]

SECOND_CONNECT: Final[list[Malformed]] = [case for case in OTHERS if case.is_connect]
"""Valid on its own, wrong after another CONNECT."""
