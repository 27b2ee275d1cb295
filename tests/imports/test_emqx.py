"""Some generated configurations in each run of the tests; `make imports` plays two thousand."""

import pytest

from tests.imports.emqx import check

pytestmark = pytest.mark.once
pytest.importorskip("pyhocon", reason="needs the extra `emqx`")

PAIRS = 40


@pytest.mark.timeout(300)
def test_no_import_opens_more() -> None:
    """What is imported permits nothing to anybody that the original does not, whatever the exit status is."""
    assert check(PAIRS, seed=1) >= PAIRS
