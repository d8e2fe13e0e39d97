"""What a load found: a rate that comes from looking in vain is no gain."""

from __future__ import annotations

import pytest

from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import DriverResult, RunRecord, StepRecord
from mydyno.model.stored.summary import FoundRecord, RunSummary
from mydyno.results.values.doubts import found_less, found_of
from tests.support.fake_answer import effect

STEP = "oltp_read_only-64"


def run(arm: str, valid: bool = True, copy: int = 1, **whole: int) -> RunRecord:
    driver = DriverResult(
        driver="dynoload", version="", command=(), transactions=10, queries=10, duration_s=1.0, whole=whole
    )
    step = StepRecord(
        id=STEP, workload="kv_get", connections=1, started_unix_ns=0, warmup_s=0, measure_s=1, driver=driver, valid=True
    )
    return RunRecord(
        block=1, position=1, arm=arm, copy=copy, folder="x", started_unix_ns=0, ended_unix_ns=1, valid=valid,
        steps=(step,),
    )  # fmt: skip


def found_in(*records: RunRecord) -> tuple[FoundRecord, ...]:
    return found_of(records, [RunSummary.of(one) for one in records])


def test_the_keys_that_gets_found_are_counted_over_runs_and_copies() -> None:
    records = [run("a", cmd_get=100, get_misses=0), run("a", copy=2, cmd_get=100, get_misses=2)]
    records += [run("b", cmd_get=100, get_misses=47), run("b", copy=2, valid=False, cmd_get=100, get_misses=100)]
    shares = {"a": ("keys", 0.99), "b": ("keys", pytest.approx(0.53))}
    assert {one.arm: (one.of, one.share) for one in found_in(*records)} == shares


def test_a_step_that_was_dropped_after_the_run_is_not_counted() -> None:
    records = [run("a", cmd_get=100, get_misses=0), run("b", cmd_get=100, get_misses=47)]
    dropped = {STEP: (Reason(check="steal", text="it differed between the block's arms"),)}
    assert found_of(records, [RunSummary.of(one, invalid_steps=dropped) for one in records]) == ()


def test_of_statements_those_count_that_returned_or_changed_a_row() -> None:
    runs = [run("a", read=60, write=40), run("b", read=60, write=20, unchanged=20, empty_reads=30)]
    assert {one.arm: (one.of, one.share) for one in found_in(*runs)} == {"a": ("rows", 1.0), "b": ("rows", 0.5)}


def test_a_step_at_which_every_arm_found_all_has_no_record() -> None:
    assert found_in(run("a", cmd_get=100, get_misses=0), run("b", read=60, write=40)) == ()
    assert found_in(run("a", transactions=5)) == ()


@pytest.mark.parametrize(
    ("verdict", "metric", "arm", "control", "is_less"),
    [
        ("higher", "qps", 0.5, 1.0, True),
        ("higher", "qps", 1.0, 0.5, False),
        ("lower", "qps", 1.0, 0.5, True),
        ("lower", "qps", 0.5, 1.0, False),
        ("lower", "server_cpu_us_per_query", 0.5, 1.0, True),
        ("higher", "server_cpu_us_per_query", 1.0, 0.5, True),
        ("lower", "latency_p99_us", 0.5, 1.0, True),
        ("equivalent", "qps", 0.5, 1.0, True),
        ("equivalent", "qps", 1.0, 0.995, False),
        ("inconclusive", "qps", 0.5, 1.0, True),
        ("inconclusive", "qps", 1.0, 0.995, False),
        ("lower", "kv_hit_pct", 0.5, 1.0, False),
        ("higher", "kv_misses_per_s", 0.5, 1.0, False),
    ],
)
def test_less_work_is_named_of_the_side_that_looks_better(
    verdict: str, metric: str, arm: float, control: float, is_less: bool
) -> None:
    found = [FoundRecord(step=STEP, arm=name, of="keys", share=share) for name, share in (("b", arm), ("a", control))]
    one = effect("b", verdict, 10.0, metric=metric, control="a")
    assert (found_less(found, one) is not None) is is_less
    assert found_less([], one) is None
