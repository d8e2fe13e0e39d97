"""What a slice's record says of the whole slice, by the names that the validity rules read."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno.execution.interleaved.slices import own_rates, whole_counts
from mydyno.execution.validity import SLICES_RULES, StepFacts, step_reasons
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.specs import ValiditySpec
from mydyno.model.stored.records import DriverResult
from mydyno.results.values.doubts import missed

STEP = Step(id="s", workload="kv_mixed", connections=2, warmup_s=0, measure_s=1, driver="dynoload")


def record(gets: int, misses: int) -> dict[str, Any]:
    """As dynoload's output/kv.rs writes it: the measured part, and all from the start to the hold."""
    kv = {"cmd_get": gets, "cmd_set": 100, "get_hits": gets - misses, "get_misses": misses}
    counts = {"transactions": gets + 100, "reads": gets, "writes": 100}
    return {"whole_counts": counts, "kv": {"counts": {"cmd_get": 1}, "whole_load_counts": kv}}


@pytest.mark.parametrize(("misses", "closed"), [(0, False), (5, False), (844, True)])
def test_gets_that_find_nothing_close_the_gate_of_slices(misses: int, closed: bool) -> None:
    whole = whole_counts([record(1000, misses), record(1000, misses)])
    assert (whole["cmd_get"], whole["get_misses"], whole["transactions"]) == (2000, 2 * misses, 2200)
    assert missed(STEP, whole)[0] == pytest.approx(misses / 1000)
    driver = DriverResult(driver="d", version="1", command=(), transactions=1, queries=1, duration_s=1.0, whole=whole)
    facts = StepFacts(ValiditySpec(not_found=0.01), driver, whole_s=1.0, cpus=1.0, step=STEP)
    assert bool(step_reasons(facts, SLICES_RULES)) is closed


def test_statements_have_no_gets() -> None:
    assert whole_counts([{"whole_counts": {"transactions": 2, "reads": 9, "writes": 1}}])["read"] == 9


def test_rates_of_kinds_have_what_the_slice_cut() -> None:
    cut = {"length_s": 0.5, "counts": {"transactions": 10}, "cut": {"transactions": 2.0, "queries": 2.0}}
    of_kv = {**cut, "kv": {"counts": {"cmd_get": 50, "cmd_set": 50, "get_hits": 45, "get_misses": 5}}}
    assert own_rates({**cut, "tpcc": {"tpmc_like": 600.0}}) == {"tpmc": pytest.approx(720.0)}
    assert own_rates(of_kv) == {"ops": pytest.approx(240.0), "kv_misses_per_s": pytest.approx(12.0), "kv_hit_pct": 90.0}
