"""The table of malformed packets, and the texts of their errors."""

import pytest

from protocol.decoder import Decoder
from protocol.errors import MQTTError
from tests.support.protocol.malformed import MALFORMED, Malformed


def refuse(case: Malformed) -> MQTTError:
    """Decode the case; it must be refused."""
    decoder = Decoder(version=0 if case.is_connect else case.version)
    decoder.feed(bytes.fromhex(case.data))
    with pytest.raises(MQTTError) as caught:
        decoder.next_packet()
    return caught.value


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
def test_reason_code(case: Malformed) -> None:
    """Each malformed packet is refused with its reason code and a message that names the field."""
    error = refuse(case)
    assert error.reason_code == case.reason_code
    assert error.message == str(error)
    assert len(error.message) > 20


@pytest.mark.parametrize("case", [case for case in MALFORMED if case.is_connect], ids=lambda case: case.name)
def test_connect_errors_know_the_version(case: Malformed) -> None:
    """The error of a CONNECT that is malformed after its protocol level has the version, for the answer."""
    decoder = Decoder()
    decoder.feed(bytes.fromhex(case.data))
    with pytest.raises(MQTTError) as caught:
        decoder.next_packet()
    if case.reason_code != 0x84 and "fixed header" not in str(caught.value):
        assert decoder.version == case.version


def test_the_catalogue_is_large_and_unambiguous() -> None:
    """There are enough cases in both versions, and no two have the same name or bytes."""
    assert len(MALFORMED) >= 80
    assert len({case.name for case in MALFORMED}) == len(MALFORMED)
    assert len({(case.version, case.data) for case in MALFORMED}) == len(MALFORMED)
    assert {case.version for case in MALFORMED} == {4, 5}
