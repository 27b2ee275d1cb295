"""Some generated rule sets in each run of the tests; `make rules` plays a thousand."""

from pathlib import Path

import pytest

from tests.rules.__main__ import play_all
from tests.rules.batch import PUBLISHES

pytestmark = pytest.mark.once

SETS = 50


@pytest.mark.timeout(300)
def test_rule_sets(tmp_path: Path) -> None:
    """Publishes, subscriptions, retained messages, wills and groups are decided as the reference says.

    While rules change under load, nothing is delivered that neither the old nor the new ones allow.
    """
    decided = 2 * PUBLISHES * SETS  # by the old and the new rules; how many come meanwhile depends on the machine
    assert play_all(tmp_path, SETS, seed=1) > decided
