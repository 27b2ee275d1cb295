"""Stored inputs, and for a few seconds inputs like them. `make fuzz` does the same for longer.

SLUICE_FUZZ_SECONDS sets how long each target is tried (default 2, in CI 1).
"""

import os
import random
from typing import Final

import pytest

from tests.fuzz import blind
from tests.fuzz.target import CORPUS, Target, read_seed, seeds, without_comments
from tests.fuzz.targets import TARGETS

SECONDS: Final = float(os.environ.get("SLUICE_FUZZ_SECONDS", "1" if "CI" in os.environ else "2"))
SEED: Final = 5 if os.environ.get("CI") else random.randrange(1_000_000)
"""CI tries the same inputs until the code changes, as many as there is time for."""

KEPT: Final = [
    pytest.param(target, data, id=f"{target.name}-{name}")
    for target in TARGETS.values()
    for name, data in seeds(target).items()
]
NAMED: Final = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)

pytestmark = pytest.mark.usefixtures("in_peace")


@pytest.mark.parametrize(("target", "data"), KEPT)
def test_kept_inputs(target: Target, data: bytes) -> None:
    """Each input in the corpus keeps all properties."""
    target.check(data)


@NAMED
def test_kept_inputs_say_what_they_do(target: Target) -> None:
    """Each file is as the fuzzer writes it, and can be read, written and read again."""
    for path in (CORPUS / target.name).glob("*.txt"):
        data = read_seed(target, path)
        comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
        assert comments, f"{path} does not say what it is"
        assert target.parse(without_comments(target.render(data))) == data


@NAMED
def test_changed_inputs(target: Target) -> None:
    """Random changes of these inputs keep all properties."""
    try:
        count = blind.fuzz(target, SECONDS, SEED)
    except blind.FailureError as failure:
        smaller = blind.reduce(target, failure.data)
        why = f"{failure.__cause__!r} (seed {SEED}); keep this in {CORPUS / target.name}:"
        pytest.fail(f"{why}\n{target.render(smaller)}")
    assert count > 0


@NAMED
def test_any_input_is_taken(target: Target) -> None:
    """Any bytes are an input: parts that mean nothing are left out."""
    source = random.Random(SEED)
    for length in range(40):
        data = source.randbytes(length)
        target.check(data)
        target.check(target.mutate(source, data, bytes))
        target.check(target.cross(source, data, data))
