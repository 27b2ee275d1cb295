"""The home of each client id."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.slots import home_of, new_client_id


@given(client_id=st.text(max_size=40), cells=st.integers(1, 64))
def test_each_client_id_has_one_home(client_id: str, cells: int) -> None:
    """It is one of the cells, and the same one each time."""
    assert 1 <= home_of(client_id, cells) <= cells
    assert home_of(client_id, cells) == home_of(client_id, cells)


@pytest.mark.parametrize("cells", [2, 3, 8])
def test_homes_are_spread(cells: int) -> None:
    """Of 10,000 devices no cell serves over a tenth more than its share."""
    count = Counter(home_of(f"device-{number}", cells) for number in range(10_000))
    assert len(count) == cells
    assert max(count.values()) < 1.1 * 10_000 / cells


@pytest.mark.parametrize("cell", [1, 2, 3, 4])
def test_a_client_without_an_id_is_at_home_where_it_came(cell: int) -> None:
    """The client id that a cell makes up has its home there."""
    assert home_of(new_client_id(cell, 4), 4) == cell
