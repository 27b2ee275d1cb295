"""The words about values that a model refuses, where it is not the configuration: answers of login services."""

import pytest
from pydantic import ValidationError

from broker.auth.authenticators import grant
from config.expected import OTHER, expected
from tests.config.test_messages import FOREIGN, VALUES


@pytest.mark.parametrize("value", VALUES[1:])
@pytest.mark.parametrize("key", ["username", "roles", "superuser", "limits", "odd"])
def test_answers_of_services_in_our_words(key: str, value: object) -> None:
    """What a login service answers and is not understood is told in the same words."""
    try:
        grant.UserGrant.model_validate({key: value})
    except ValidationError as error:
        message = grant.text(error)
        assert not any(words in message for words in FOREIGN), message
        assert OTHER not in message


def test_kinds_without_words() -> None:
    """A kind of error that no model of ours has yet is told without pydantic's words too."""
    assert expected("url_parsing", {}) == OTHER
