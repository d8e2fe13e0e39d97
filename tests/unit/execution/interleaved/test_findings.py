"""What dynoload's own rules find in the sum of all slices: judged as in the design "blocks"."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import StudyError
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.records import DriverFinding
from mydyno.results.precision import is_unanswered
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.worded import worded

DESIGNS = [
    {"kind": "blocks", "blocks": 6},
    {"kind": "interleaved", "blocks": 6, "cycles": 4, "quiet_wait": 0, "slice": 2, "washout": 0.5},
]
STEP = ({"workload": "oltp_read_only", "connections": 4, "warmup": 2, "measure": 20},)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("rule", ["script_held", "empty_reads", "not_stored"])
async def test_a_load_in_doubt_is_named_with_the_cure(
    script: Script, paths: HostPaths, tmp_path: Path, design: dict[str, object], rule: str
) -> None:
    text = "the script held its thread for 93 % of the time; use --threads"
    script.findings = lambda _run, _step: (DriverFinding(rule=rule, level="suspect", text=text),)
    request = Request(experiment(design=design, steps=STEP), "", tmp_path / "studies", ("mydyno",))
    folder, summary = await run_study(request, paths, Watched(script), opener(script))
    assert {step.driver.health for run in folder.runs() for step in run.steps} == {"suspect"}
    assert {run.warnings for run in summary.runs} == {(f"oltp_read_only-4: {text}",)}


WRONG = DriverFinding(rule="wrong_values", level="invalid", text="3 of 900 values were not what their keys make")


async def test_an_arm_of_wrong_values_has_no_answer(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.findings = lambda run, _step: (WRONG,) if run.arm == "jemalloc" else ()
    request = Request(experiment(design=DESIGNS[1], steps=STEP), "", tmp_path / "studies", ("mydyno",))
    folder, summary = await run_study(request, paths, Watched(script), opener(script))
    assert {run.arm for run in folder.runs() if not run.valid} == {"jemalloc"}
    (sentence,) = worded(folder).answer
    assert sentence == "jemalloc is not measurable: jemalloc: invalid by the driver's own checks (6 blocks)."
    assert is_unanswered(summary, folder.runs()), "the exit code is 1"


async def test_a_thread_of_the_load_that_is_busy_all_the_time_is_what_was_measured(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.busiest_share = lambda arm: 0.99 if arm == "jemalloc" else 0.96
    request = Request(experiment(design=DESIGNS[1], steps=STEP), "", tmp_path / "studies", ("mydyno",))
    folder, _ = await run_study(request, paths, Watched(script), opener(script))
    text = "a thread of the load program used 99 % of a CPU (bound 97 %)"
    reasons = {
        (run.arm, reason.check, reason.text) for run in folder.runs() for one in run.steps for reason in one.reasons
    }
    assert reasons == {("jemalloc", "driver_cpu", text)}
    assert worded(folder).answer[0] == "jemalloc is not measurable: jemalloc: driver saturated (6 blocks)."


async def test_a_control_of_wrong_values_ends_the_study(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.findings = lambda _run, _step: (WRONG,)
    request = Request(experiment(design=DESIGNS[1], steps=STEP), "", tmp_path / "studies", ("mydyno",))
    with pytest.raises(StudyError, match=f"the control glibc is invalid in 3 blocks in a row: .*{WRONG.text}"):
        await run_study(request, paths, Watched(script), opener(script))
