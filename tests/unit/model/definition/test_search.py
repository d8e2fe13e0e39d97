"""What a capacity search sets in an experiment that does not set it."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno.model.definition.special_steps import CAPACITIES, with_search_defaults


def tree(limit: Any, **design: Any) -> dict[str, Any]:
    search = {"metric": "latency_p99_us", "limit": limit}
    return {"steps": [{"workload": "oltp_read_only", "search": search}], **({"design": design} if design else {})}


@pytest.mark.parametrize(("limit", "slice_s"), [("20ms", 5.0), ("100ms", 5.0), ("200ms", 10.0), (1, 50.0)])
def test_a_slice_is_much_longer_than_the_limit(limit: Any, slice_s: float) -> None:
    found = with_search_defaults(tree(limit, blocks=3))
    assert found["design"] == {"blocks": 3, "slice": pytest.approx(slice_s)}
    assert found["verdict"] == {"primary": CAPACITIES["rate"], "cost": False}


def test_a_slice_that_is_set_stays_and_mistakes_are_left_to_the_validation() -> None:
    assert with_search_defaults(tree("200ms", slice="4s"))["design"] == {"slice": "4s"}
    assert "design" not in with_search_defaults(tree("soon"))
    without = {"steps": [{"workload": "oltp_read_only"}]}
    assert with_search_defaults(without) == without
