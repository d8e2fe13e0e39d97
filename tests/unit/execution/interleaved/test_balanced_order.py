"""The order of slices: every lane as often at each position, and after each other lane."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from mydyno.execution.interleaved.cycle import balanced_order


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 5, 6, 9])
def test_positions_and_neighbours_are_balanced(lanes: int) -> None:
    cycles = lanes * (2 if lanes % 2 else 1)
    orders = [balanced_order(lanes, cycle, "one") for cycle in range(1, cycles + 1)]
    positions = Counter(place for order in orders for place in enumerate(order))
    assert set(positions.values()) == {cycles // lanes}
    assert len(positions) == lanes**2
    after = Counter(pair for order in orders for pair in pairwise(order))
    assert len(after) == lanes * (lanes - 1)
    assert len(set(after.values())) <= 1


def test_orders_differ_by_name_and_from_square_to_square() -> None:
    assert len({tuple(balanced_order(5, 1, str(name))) for name in range(60)}) > 30
    assert len({tuple(balanced_order(4, 1 + 4 * square, "one")) for square in range(40)}) > 15
    firsts = Counter(balanced_order(4, 1, str(name))[0] for name in range(400))
    assert min(firsts.values()) > 60
