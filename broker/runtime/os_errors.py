"""What to say of a call to the operating system, or of a step of TLS, that has failed."""

import re
import ssl
from typing import Final

_MARKS: Final = re.compile(r"^\[[^\]]*\] | \(_ssl\.c:[0-9]+\)$")
_WORDS: Final = {"PEM lib": "it cannot be decoded"}


def text_of(error: Exception) -> str:
    """The reason, and the file that it is about, without numbers and marks; an error of ours has a text of its own."""
    if not isinstance(error, OSError) or isinstance(error, ssl.SSLError):
        text = _MARKS.sub("", str(error))
        return _WORDS.get(text, text)
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what
