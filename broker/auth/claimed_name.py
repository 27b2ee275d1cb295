"""User names that clients claim, as the broker may write them: a reader of the log could log in by a token."""

from typing import Final

HIDDEN: Final = "(not shown: it may be a token)"

MOST_SHOWN: Final = 80
"""Characters."""

_BEGIN: Final = "eyJ"
"""How a JSON object begins in base64."""


def may_be_shown(username: str, may_be_token: bool) -> bool:
    """Whether a user name that has not been verified may be in a log, a trace or an answer.

    `may_be_token`: clients send tokens as user names, so that a mistyped one need not look like one.
    """
    looks_like_token = username.lstrip().startswith(_BEGIN) or (_BEGIN in username and username.count(".") >= 2)
    return not (may_be_token or looks_like_token)


def shown(username: str, may_be_token: bool) -> str:
    """Such a user name, quoted and cut; HIDDEN if it may not be shown."""
    return repr(username[:MOST_SHOWN]) if may_be_shown(username, may_be_token) else HIDDEN
