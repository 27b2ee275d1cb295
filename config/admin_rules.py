"""Rules between the keys of `admin`. Like `config.rules` they work on what could be parsed; None = could not be."""

from collections.abc import Sequence

from config.bind_address import BindAddress
from config.rules import BrokenRule, ListenerFacts


def broken(
    listen: BindAddress | None, tls: bool | None, way_in: bool | None, listeners: Sequence[ListenerFacts] = ()
) -> list[BrokenRule]:
    """All broken rules; `listen`: None = not set either. `tls`: whether there is any.

    `way_in`: whether there are tokens, or a Unix socket on which `sluice dashboard` asks for links.
    """
    if listen is None:
        return []
    problems: list[BrokenRule] = []
    if way_in is False:
        message = f"{listen.text} needs admin.tokens (`sluice ctl token NAME` prints one), or admin.socket for links"
        problems.append(BrokenRule(("admin", "listen"), message))
    if tls is False and not listen.is_loopback:
        message = f"{listen.text} can be reached from other machines: set admin.tls, or bind it to 127.0.0.1 or [::1]"
        problems.append(BrokenRule(("admin", "listen"), message))
    for each in listeners:
        if each.address is not None and listen.clashes(each.address):
            message = f"found {listen.text!r}, which {each} uses too: give each its own port"
            problems.append(BrokenRule(("admin", "listen"), message))
    return problems
