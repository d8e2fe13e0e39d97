"""Each rule of validity closes for what it is about, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mydyno.execution.validity import (
    RunFacts,
    StepFacts,
    failure_of,
    others_killed,
    run_reasons,
    step_reasons,
    step_warnings,
)
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.specs import ValiditySpec
from mydyno.model.stored.records import DriverFinding, DriverResult, Evidence

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
RUN = RunFacts(ValiditySpec(), (), swapped_bytes=0)


def driver(**changes: float) -> StepFacts:
    return replace(FINE, driver=DRIVER.model_copy(update=changes))


def test_what_is_fine_fails_no_check() -> None:
    assert step_reasons(FINE) == [] and run_reasons(RUN) == []


@pytest.mark.parametrize(
    ("facts", "check"),
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
def test_a_step_s_check_fails_alone(facts: StepFacts, check: str) -> None:
    assert [reason.check for reason in step_reasons(facts)] == [check]


STEP = Step(id="s", workload="oltp_read_only", connections=1, warmup_s=0, measure_s=1, driver="dynoload")
SHARE = STEP.model_copy(update={"workload": "kv_get", "options": {"hit_ratio": "80%"}})


@pytest.mark.parametrize(
    ("step", "whole", "bound", "words"),
    [
        (STEP, {"cmd_get": 1000, "get_misses": 10}, 0.01, ""),
        (STEP, {"cmd_get": 1000, "get_misses": 844}, 0.01, "844 of 1000 gets (84.4%) found no key (bound 1%)"),
        (STEP, {"cmd_get": 1000, "get_misses": 844}, 1.0, ""),
        (SHARE, {"cmd_get": 1000, "get_misses": 205}, 0.01, ""),
        (SHARE, {"cmd_get": 1000, "get_misses": 300}, 0.01, "300 of 1000 gets (30.0%) found no key (bound 1%)"),
        (STEP, {"read": 100, "missing_rows": 1, "empty_reads": 2}, 0.01, ""),
        (
            STEP,
            {"read": 100, "missing_rows": 50},
            0.01,
            "50 of 100 statements (50.0%) found no row that the data have",
        ),
        (STEP, {"read": 100, "empty_reads": 99}, 0.01, ""),
        (STEP, {"read": 100, "empty_reads": 100}, 0.01, "none of the 100 reads found a row"),
        (STEP, {"read": 100, "empty_reads": 100}, 1.0, ""),
        (STEP, {}, 0.01, ""),
    ],
)
def test_a_step_that_finds_less_than_its_data_have_is_invalid(
    step: Step, whole: dict[str, int], bound: float, words: str
) -> None:
    driver = DRIVER.model_copy(update={"whole": whole})
    facts = replace(FINE, bounds=ValiditySpec(not_found=bound), step=step, driver=driver)
    reasons = step_reasons(facts)
    assert [reason.check for reason in reasons] == (["not_found"] if words else [])
    assert not words or reasons[0].text.startswith(words)


def test_what_was_not_found_is_a_warning_where_it_is_allowed() -> None:
    driver = DRIVER.model_copy(update={"whole": {"cmd_get": 1000, "get_misses": 844}})
    assert step_warnings(STEP, driver) == ("844 of 1000 gets (84.4%) found no key",)


@pytest.mark.parametrize("rule", ["stalled", "paused", "script_held", "not_stored", "empty_reads"])
def test_a_load_in_doubt_is_a_warning(rule: str) -> None:
    finding = DriverFinding(rule=rule, level="suspect", text="the server answered nobody for 5.0 s")
    assert step_warnings(STEP, DRIVER.model_copy(update={"findings": (finding,)})) == (finding.text,)
    fine = finding.model_copy(update={"level": "valid"})
    assert step_warnings(STEP, DRIVER.model_copy(update={"findings": (fine,)})) == ()


def test_ignored_errors_have_the_bound_of_the_study_and_not_that_of_the_load_program() -> None:
    finding = DriverFinding(rule="ignored_errors", level="invalid", text="15 errors were ignored")
    driver = DRIVER.model_copy(update={"findings": (finding,), "health": "invalid", "ignored_errors": 15})
    bounds = ValiditySpec(ignored_errors_per_transaction=0.2)
    assert step_reasons(replace(FINE, bounds=bounds, driver=driver)) == []
    assert failure_of(driver, bounds) == ""


def test_a_kill_of_another_program_is_a_warning() -> None:
    words = "the kernel killed 1 process of this host for lack of memory meanwhile"
    assert [others_killed(kills, own) for kills, own in ((2, 1), (1, 1), (0, 0), (None, 0))] == [(words,), (), (), ()]


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        (replace(RUN, swapped_bytes=(1 << 20) + 1), "swap"),
        (replace(RUN, servers_killed=1), "out_of_memory"),
        (replace(RUN, evidence=(Evidence(treatment="tls", holds=False, text="it is off"),)), "unproved"),
    ],
)
def test_a_run_s_check_fails_alone(facts: RunFacts, check: str) -> None:
    assert [reason.check for reason in run_reasons(facts)] == [check]
