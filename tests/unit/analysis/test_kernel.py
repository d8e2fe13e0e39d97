"""The kernel view of made-up studies: a planted latency leads, and without one nothing is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mydyno.analysis.kernel import analyse, leading, percentiles_us
from mydyno.model.stored.counted import Bucket, KernelContrast, KernelEvent, KernelRecord, KernelTotals
from mydyno.store.samples import KERNEL_FILE
from tests.support.counted_study import COST, STEP, counted_study

USUAL = {"run_queue": (30.0, 20.0), "run_queue_background": (2.0, 20.0), "futex": (2.0, 150.0),
         "file_sync": (0.2, 900.0), "block_read": (0.0, 0.0), "block_write": (1.0, 80.0),
         "block_flush": (0.0, 0.0)}  # fmt: skip
COUNTED = {"retransmits_from_server": 0.001, "retransmits_to_server": 0.0, "system_calls": 60.0,
           "system_call/recvfrom": 40.0, "system_call/futex": 4.0, "system_call/getpid": 0.0001}  # fmt: skip
THROTTLED = {"run_queue": (32.0, 400.0)}


def traced(random: np.random.Generator, more: Mapping[str, tuple[float, float]] | None = None) -> KernelTotals:
    """What one run has: Poisson numbers, exponential durations, and a spread of 15 % from start to start."""
    events = []
    for name, (rate, mean_us) in {**USUAL, **(more or {})}.items():
        count = int(random.poisson(600 * rate))
        time_us = float(random.gamma(max(count, 1), mean_us) * np.exp(random.normal(0, 0.15))) if count else 0.0
        buckets = (Bucket(low_us=mean_us / 2, high_us=mean_us * 2, count=count),) if count else ()
        events.append(KernelEvent(measure=name, count=count, time_us=time_us, histogram=buckets))
    events += [KernelEvent(measure=name, count=int(random.poisson(600 * rate))) for name, rate in COUNTED.items()]
    return KernelTotals(step=STEP, slices=1, transactions=600, loaded_s=4.8, tracer="bpftrace v1", events=tuple(events))


def study(
    folder: Path,
    seed: int,
    more: Mapping[str, tuple[float, float]] | None = None,
    copy: Mapping[str, tuple[float, float]] | None = None,
    alpha: float | None = 0.03125,
) -> KernelRecord:
    """The kernel view of a study of `changed` against `base`. `more`: the arm's measures; `copy`: those of A′."""
    random = np.random.default_rng(seed)

    def totals(arm: str, number: int) -> KernelTotals:
        return traced(random, more if arm == "changed" else copy if number == 2 else None)

    made = counted_study(folder, "kernel", totals)
    found = analyse(made.examined(folder, KERNEL_FILE, alpha))
    assert found is not None
    return found


def contrast(record: KernelRecord) -> KernelContrast:
    (found,) = record.contrasts
    return found


def test_a_planted_latency_leads(tmp_path: Path) -> None:
    led = 0
    for seed in range(10):
        first = leading(contrast(study(tmp_path / str(seed), seed, THROTTLED)))
        led += first is not None and first.measure == "run_queue"
    assert led >= 9


@pytest.mark.slow
def test_without_a_difference_nothing_is_claimed_in_nineteen_of_twenty_studies(tmp_path: Path) -> None:
    studies = [contrast(study(tmp_path / str(seed), seed)) for seed in range(20)]
    assert sum(any(row.beyond_noise for row in one.rows) for one in studies) <= 1


def test_copies_of_the_control_that_differ_are_an_alarm(tmp_path: Path) -> None:
    record = study(tmp_path, 1, THROTTLED, copy=THROTTLED)
    assert record.alarm is not None and (record.alarm.control, record.alarm.kind) == ("base", "event")
    assert record.alarm.of.startswith("run_queue")
    assert leading(contrast(record)) is None


def test_before_a_look_nothing_is_claimed(tmp_path: Path) -> None:
    assert leading(contrast(study(tmp_path, 1, THROTTLED, alpha=None))) is None


def test_amounts_are_per_transaction_and_what_never_occurred_is_zero(tmp_path: Path) -> None:
    record = study(tmp_path, 1)
    rows = {one.measure: one for one in contrast(record).rows}
    assert rows["futex"].control_us == pytest.approx(300.0, rel=0.3)
    assert rows["futex"].control_count == pytest.approx(2.0, rel=0.1)
    assert (rows["block_read"].arm_us, rows["block_read"].arm_percentiles_us) == (0.0, {})
    assert (rows["system_calls"].arm_us, rows["retransmits_to_server"].arm_count) == (None, 0.0)
    assert rows["system_call/recvfrom"].high_count is not None
    assert "system_call/getpid" not in rows, "too rare to be compared"
    assert contrast(record).control_us == pytest.approx(8 * 8000.0)
    assert record.throughput_ratio == pytest.approx(COST, rel=0.01)
    assert record.tracer == "bpftrace v1"


def test_percentiles_lie_in_their_buckets() -> None:
    buckets = [Bucket(low_us=1, high_us=2, count=90), Bucket(low_us=64, high_us=128, count=10)]
    found = percentiles_us(buckets)
    assert found == {"p50": pytest.approx(1.556, abs=1e-3), "p95": 96.0, "p99": pytest.approx(121.6)}
    assert percentiles_us([]) == {}
