"""Each rule of validity closes for what it is about, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mydyno.execution.validity import RunFacts, StepFacts, run_reasons, step_reasons
from mydyno.model.definition.experiment import ValiditySpec
from mydyno.model.stored.records import DriverResult, Evidence

DRIVER = DriverResult(
    driver="fake",
    version="1",
    command=(),
    transactions=100,
    queries=1600,
    duration_s=10.0,
    cpu_user_s=1.0,
    cpu_system_s=0.0,
)
FINE = StepFacts(ValiditySpec(), DRIVER, whole_s=10.0, cpus=2)
RUN = RunFacts(ValiditySpec(), (), swapped_bytes=0, out_of_memory_kills=0)


def driver(**changes: float) -> StepFacts:
    return replace(FINE, driver=DRIVER.model_copy(update=changes))


def test_what_is_fine_closes_no_gate() -> None:
    assert step_reasons(FINE) == [] and run_reasons(RUN) == []


@pytest.mark.parametrize(
    ("facts", "gate"),
    [
        (driver(errors=1), "errors"),
        (driver(reconnects=1), "errors"),
        (driver(ignored_errors=11), "ignored_errors"),
        (driver(cpu_user_s=19.5), "driver_cpu"),
        (replace(FINE, throttled={"cpu.stat": 0.02}), "throttled"),
        (replace(FINE, disagreements=("12 reads, 13 counted",)), "counters"),
        (
            replace(FINE, bounds=ValiditySpec(steady="strict"), steadiness="not steady", steady_reasons=("it falls",)),
            "steady",
        ),
    ],
)
def test_a_step_s_gate_closes_alone(facts: StepFacts, gate: str) -> None:
    assert [reason.gate for reason in step_reasons(facts)] == [gate]


@pytest.mark.parametrize(
    ("facts", "gate"),
    [
        (replace(RUN, swapped_bytes=(1 << 20) + 1), "swap"),
        (replace(RUN, out_of_memory_kills=1), "out_of_memory"),
        (replace(RUN, evidence=(Evidence(treatment="tls", holds=False, text="it is off"),)), "unproved"),
    ],
)
def test_a_run_s_gate_closes_alone(facts: RunFacts, gate: str) -> None:
    assert [reason.gate for reason in run_reasons(facts)] == [gate]
