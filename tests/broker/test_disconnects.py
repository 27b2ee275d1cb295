"""Why clients were disconnected: the names of the reasons, and their counts."""

from broker.disconnects import CLIENT_ERROR, LOST, Disconnects, by_client, reason_name
from protocol import reason_codes
from protocol.packet_types import DISCONNECT


def test_each_reason_has_a_name_of_its_own() -> None:
    """All reason codes of DISCONNECT, and the reasons without one, are told apart by their names."""
    reasons = [code for code in range(256) if reason_codes.is_allowed(code, DISCONNECT)] + [CLIENT_ERROR, LOST]
    assert len({reason_name(reason) for reason in reasons}) == len(reasons)
    assert not any(reason_name(reason).startswith("0x") for reason in reasons)


def test_what_a_client_says() -> None:
    """A client that reports an error does not count as one that the broker has disconnected for it."""
    codes = [reason_codes.NORMAL_DISCONNECTION, reason_codes.DISCONNECT_WITH_WILL_MESSAGE, reason_codes.PROTOCOL_ERROR]
    assert [by_client(code) for code in codes] == [*codes[:2], CLIENT_ERROR]


def test_counts_begin_at_zero() -> None:
    """A reason that is common is there before its first disconnect; a rare one from its first on."""
    disconnects = Disconnects()
    assert set(disconnects.counts.values()) == {0}
    assert {LOST, reason_codes.KEEP_ALIVE_TIMEOUT} < set(disconnects.counts)
    disconnects.count(LOST)
    disconnects.count(reason_codes.TOPIC_ALIAS_INVALID)
    assert (disconnects.counts[LOST], disconnects.counts[reason_codes.TOPIC_ALIAS_INVALID]) == (1, 1)
