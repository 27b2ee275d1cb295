"""Errors of the operating system and of TLS, in our words."""

import errno
import os
import ssl

import pytest

from broker.runtime.os_errors import text_of
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.wire import WireClient

RESET = os.strerror(errno.ECONNRESET)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionResetError(errno.ECONNRESET, RESET), RESET),
        (FileNotFoundError(errno.ENOENT, "No such file", "a.pem"), "a.pem: No such file"),
        (OSError("all that there is to say"), "all that there is to say"),
        (ValueError("a mistake"), "a mistake"),
        (ssl.SSLError(1, "[SSL: NO_CERTIFICATE_ASSIGNED] no certificate (_ssl.c:39)"), "no certificate"),
        (ssl.SSLError(1, "[X509] PEM lib (_ssl.c:39)"), "it cannot be decoded"),
    ],
)
def test_text(error: Exception, text: str) -> None:
    """The number of an error is left out, and the file that it names is not."""
    assert text_of(error) == text


@pytest.mark.once
def test_name_of_another_protocol(start: Start) -> None:
    """The log shows another protocol's name as text."""
    broker = start()
    with WireClient(broker.address(), 5) as client:
        client.send(b"\x10\x0c\x00\x04MQTX\x04\x02\x00\x3c\x00\x00")
        (refused,) = wait_for_event(broker, "client_refused")
    assert refused["detail"] == "CONNECT protocol name: is 'MQTX', but must be 'MQTT'"
