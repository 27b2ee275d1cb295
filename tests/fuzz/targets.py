"""The targets by name."""

from typing import Final

from tests.fuzz.codec import Codec
from tests.fuzz.machine import Machine
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {"codec": Codec(), "machine": Machine()}
