"""AUTH: its short form, and its absence in 3.1.1."""

import pytest

from protocol.auth import Auth


def test_auth_in_its_shortest_form() -> None:
    """An empty AUTH is Success (section 3.15.2.1); 3.1.1 has no AUTH."""
    assert Auth().encode(5) == b"\xf0\x00"
    with pytest.raises(ValueError, match="no such packet"):
        Auth().encode(4)
