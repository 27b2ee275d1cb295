"""The targets by name."""

from typing import Final

from tests.fuzz.codec import Codec
from tests.fuzz.machine import Machine
from tests.fuzz.passwords import PasswordFile
from tests.fuzz.proxy import ProxyHeader
from tests.fuzz.rules import AclFile, RulesFile
from tests.fuzz.target import Target
from tests.fuzz.tokens import KeySet, Token
from tests.fuzz.websocket import WebSocketStream

_ALL: Final[list[Target]] = [
    Codec(),
    Machine(),
    WebSocketStream(),
    ProxyHeader(),
    PasswordFile(),
    AclFile(),
    RulesFile(),
    Token(),
    KeySet(),
]
TARGETS: Final = {target.name: target for target in _ALL}
