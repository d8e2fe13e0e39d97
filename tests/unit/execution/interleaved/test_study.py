"""The interleaved design on a fake host: order, slices, failures, resume; exact numbers, no server."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError, StudyError
from mydyno.evaluation.answer import answer_of
from mydyno.execution.interleaved.study_time import StudyTime
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ArmSpec, Experiment
from mydyno.model.stored.records import Evidence
from mydyno.model.stored.summary import Summary
from mydyno.store.samples import ALONE_FILE, SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder
from mydyno.study import resume_study, run_study
from mydyno.wording.stored_result import StoredResult
from mydyno.wording.verdicts import recorded_failure
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.stored_schemas import check

STEP = "oltp_read_only-4"


class KilledError(Exception):
    """Ends the program in the middle of a slice."""


def interleaved(arms: tuple[str, ...] = ("glibc", "jemalloc"), **design: object) -> Experiment:
    plain = {"kind": "interleaved", "blocks": 6, "cycles": 4, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    return experiment(arms, design={**plain, **design})


async def study(
    script: Script, paths: HostPaths, tmp_path: Path, asked: Experiment, timing: type[StudyTime] = StudyTime
) -> tuple[StudyFolder, Summary, Watched]:
    watcher = Watched(script)
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"), timing=timing)
    folder, summary = await run_study(request, paths, watcher, opener(script))
    return folder, summary, watcher


def noisy(script: Script, effect: float, seed: int = 1) -> None:
    """A host whose speed wanders by 25 % within some ten slices, and an arm that is faster by `effect`."""
    random = Random(seed)
    slices = itertools.count()

    def qps(arm: str, _copy: int, _step: object, _order: object) -> float:
        return 1000.0 * (1 + effect * (arm == "jemalloc")) * random.gauss(1, 0.01)

    def host_speed() -> float:
        return math.exp(0.25 * math.sin(next(slices) / 5 + seed))

    script.slice_qps, script.host_speed = qps, host_speed


async def test_each_cycle_loads_every_server_once_and_one_at_a_time(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, _, _ = await study(script, paths, tmp_path, interleaved(blocks=1))
    slices = read_slices(folder.block_path(1) / SLICES_FILE)
    for step in {one.step for one in slices}:
        for cycle in range(1, 5):
            own = [(o.arm, o.copy_number, o.position) for o in slices if (o.step, o.cycle) == (step, cycle)]
            assert sorted((arm, copy) for arm, copy, _ in own) == [("glibc", 1), ("glibc", 2), ("jemalloc", 1)]
            assert [position for _, _, position in own] == [1, 2, 3]
    orders = {tuple(o.arm for o in slices if (o.step, o.cycle) == (STEP, cycle)) for cycle in range(1, 5)}
    assert len(orders) > 1
    began = script.events.index("probe")
    assert script.events[:began].count("start") == 3, "all servers are up before the first slice"
    assert script.events[-1] == "close"


async def test_cpu_time_for_a_query_is_in_microseconds(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    """The fake server uses one CPU while it is loaded, so a query takes a second by the queries a second."""
    folder, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=1))
    assert all(
        one.server_cpu_s == pytest.approx(one.length_s) for one in read_slices(folder.block_path(1) / SLICES_FILE)
    )
    for run in summary.runs:
        for values in run.unadjusted.values():
            assert values["server_cpu_us_per_query"] * values["qps"] == pytest.approx(1e6, rel=1e-3)


async def test_the_hosts_speed_is_taken_out_and_a_planted_difference_has_its_size(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    noisy(script, 0.05, seed=2)
    _, summary, _ = await study(script, paths, tmp_path, interleaved(cycles=6))
    effects = [effect for effect in summary.effects if effect.metric == "qps"]
    assert summary.design == "interleaved"
    assert [effect.verdict for effect in effects] == ["higher", "higher"]
    assert all(effect.ratio == pytest.approx(1.05, abs=0.02) for effect in effects)
    assert summary.interleaving is not None
    assert summary.interleaving.coefficients[STEP]["qps"]["driver_cpu_around"] == pytest.approx(-1, abs=0.2)
    widths = [
        (effect.ci_high - effect.ci_low, effect.unadjusted[2] - effect.unadjusted[1])
        for effect in effects
        if effect.ci_high and effect.ci_low and effect.unadjusted and effect.unadjusted[1] and effect.unadjusted[2]
    ]
    assert len(widths) == 2
    assert all(unadjusted > adjusted for adjusted, unadjusted in widths)


async def test_an_arm_that_makes_its_client_dearer_seems_no_faster(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    noisy(script, 0.0)
    script.driver_cost = lambda arm: 10e-6 * (1.3 if arm == "jemalloc" else 1.0)
    _, summary, _ = await study(script, paths, tmp_path, interleaved(cycles=6))
    assert summary.interleaving is not None
    assert "driver_cpu_around" in summary.interleaving.covariates
    effects = [effect for effect in summary.effects if effect.metric == "qps"]
    assert all(effect.ratio == pytest.approx(1, abs=0.01) for effect in effects)
    assert all(effect.verdict not in ("higher", "lower") for effect in effects)


async def test_an_arm_that_fails_in_some_blocks_is_never_called_higher(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    noisy(script, 0.05)
    script.slice_error = lambda arm, _copy, _step, order: (
        "lost connection" if arm == "jemalloc" and order.stream % 3 == 0 else None
    )
    folder, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=10))
    failed = {
        one.block for block in range(1, 11) for one in read_slices(folder.block_path(block) / SLICES_FILE) if one.failed
    }
    assert len(failed) > 1
    effects = [effect for effect in summary.effects if effect.metric == "qps"]
    assert {effect.verdict for effect in effects} <= {"not_measurable"}
    assert all(effect.ratio is None for effect in effects)


async def test_an_arm_that_stalls_under_a_rate_in_some_blocks_has_failed_in_them(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    noisy(script, 0.05)
    block = {"now": 0}

    def unfinished(arm: str, _copy: int, order: SliceOrder) -> int:
        stalls = arm == "jemalloc" and block["now"] % 3 == 1 and order.id.endswith("/2")
        return 20 if stalls else 0

    class Counted(Watched):
        def block_begins(self, number: int, of: int, left_s: float | None, cycles: float) -> None:
            block["now"] = number

    script.unfinished = unfinished
    steps = ({"workload": "oltp_read_only", "connections": [4], "rate": [100], "warmup": 1, "measure": 2},)
    asked = Experiment.model_validate({**interleaved(blocks=10).model_dump(), "steps": steps})
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    folder, summary = await run_study(request, paths, Counted(script), opener(script))
    (effect,) = (effect for effect in summary.effects if effect.metric == "qps")
    assert (effect.verdict, effect.ratio) == ("not_measurable", None)
    assert "failed in 4 of 10 blocks (it did not keep up: " in recorded_failure(effect)
    second = next(
        one for one in read_slices(folder.block_path(1) / SLICES_FILE) if (one.arm, one.cycle) == ("jemalloc", 2)
    )
    assert (second.planned, second.unfinished, second.dropped) == (200, 20, 0)


async def test_an_arm_whose_treatment_is_not_proved_has_no_values_and_has_not_failed(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.evidence = lambda _: Evidence(treatment="fake", holds=False, text="malloc is libc's")
    plain = interleaved(blocks=2)
    asked = plain.model_copy(update={"arms": (plain.arms[0], ArmSpec(name="jemalloc", treatments={"fake": 1}))})
    folder, summary, _ = await study(script, paths, tmp_path, asked)
    runs = [run for run in folder.runs() if run.arm == "jemalloc"]
    assert [(run.valid, run.failed, run.reasons[0].check) for run in runs] == [(False, "", "unproved")] * 2
    assert [step.failed for run in runs for step in run.steps] == [""] * 4
    (effect,) = [one for one in summary.effects if one.metric == "qps" and one.step == STEP]
    assert (effect.verdict, effect.details.failure) == ("not_measurable", None)
    answer = " ".join(answer_of(StoredResult.load(folder)).answer)
    assert "treatment not proved (2 blocks): fake: malloc is libc's" in answer


async def test_an_arm_that_never_starts_is_given_up_and_the_others_go_on(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.start_error = lambda arm, _copy: "cannot load library" if arm == "tcmalloc" else None
    asked = interleaved(("glibc", "jemalloc", "tcmalloc"), blocks=6)
    folder, summary, _ = await study(script, paths, tmp_path, asked)
    runs = {run.block: run for run in folder.runs() if run.arm == "tcmalloc"}
    assert "cannot load library" in runs[1].failed
    assert "not started: it failed in the previous blocks" in runs[3].failed
    verdicts = {effect.arm: effect.verdict for effect in summary.effects if effect.metric == "qps"}
    assert verdicts["tcmalloc"] == "not_measurable"
    assert verdicts["jemalloc"] != "not_measurable"


async def test_an_arm_that_does_not_start_with_its_variables_ends_the_study_before_any_load(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.start_error = lambda arm, _copy: "Cannot create redo log files" if arm == "large" else None
    plain = interleaved()
    large = ArmSpec(name="large", treatments={"variables": {"innodb_page_size": "8K"}})
    with pytest.raises(StudyError, match=r"arm large: variables: its server does not start .* Cannot create redo log"):
        await study(script, paths, tmp_path, plain.model_copy(update={"arms": (*plain.arms, large)}))
    assert "probe" not in script.events


async def test_a_sampler_that_fails_at_its_end_leaves_no_server(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.probe_error = "the SSH connection ended"
    with pytest.raises(HostError, match="the SSH connection ended"):
        await study(script, paths, tmp_path, interleaved())
    assert script.events.count("stop") == script.events.count("start") == 3


async def test_a_control_that_never_starts_ends_the_study_with_its_reason(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.start_error = lambda arm, _copy: "no such file" if arm == "glibc" else None
    with pytest.raises(StudyError, match="the control glibc failed in 3 blocks in a row: no such file"):
        await study(script, paths, tmp_path, interleaved())


async def test_a_study_that_is_killed_in_a_cycle_resumes_with_the_same_block(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    def kill(arm: str, _copy: int, _step: object, _order: object) -> float:
        if script.events.count("block 3/6") and len(script.events) % 7 == 0:
            raise KilledError
        return 1000.0

    script.slice_qps = kill
    with pytest.raises(KilledError):
        await study(script, paths, tmp_path, interleaved())
    (path,) = (tmp_path / "studies").iterdir()
    script.slice_qps = lambda *_: 1000.0
    folder, summary = await resume_study(path, paths, Watched(script), opener(script))
    assert summary.state == "complete"
    assert sorted({run.block for run in folder.runs()}) == [1, 2, 3, 4, 5, 6]
    assert not list(path.glob("blocks/.*"))


async def test_carry_over_doubles_the_washout_of_the_blocks_to_come(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    random, last, washouts = Random(5), {"arm": ""}, list[float]()

    def qps(arm: str, _copy: int, _step: object, order: SliceOrder) -> float:
        after, last["arm"] = last["arm"], arm
        if order.id.startswith(STEP):
            washouts.append(order.washout_s)
        slowed = after == "jemalloc" and order.washout_s < 1.0
        return 1000.0 * (0.9 if slowed else 1.0) * random.gauss(1, 0.005)

    script.slice_qps = qps
    folder, summary, watcher = await study(script, paths, tmp_path, interleaved(blocks=6))
    assert set(washouts) == {0.5, 1.0}
    (event,) = [event for event in folder.journal.read() if event["event"] == "washout"]
    assert event["washout_s"] == 1.0
    assert any("the washout is 1 s from the next block on" in said for said in watcher.said)
    assert summary.interleaving is not None
    assert summary.interleaving.washout_s == 1.0
    slices = read_slices(folder.block_path(6) / SLICES_FILE)
    assert {one.washout_s for one in slices} == {1.0}


@pytest.mark.slow
async def test_the_control_is_loaded_alone_at_the_end_of_the_first_block(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    random = Random(6)
    script.slice_qps = lambda *_: random.gauss(1000, 5)
    folder, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=6))
    check(folder.path, "blocks/*/alone.jsonl")
    alone = read_slices(folder.block_path(1) / ALONE_FILE)
    assert [one.arm for one in alone] == ["glibc"] * 8
    assert not (folder.block_path(2) / ALONE_FILE).exists()
    first = next(index for index, event in enumerate(script.events) if event.startswith("slice alone/0"))
    last = next(index for index, event in enumerate(script.events) if event.startswith("slice alone/7"))
    assert script.events[:first].count("stop") == 2, "jemalloc and the control's copy"
    assert script.events[first:last].count("stop") == 0
    assert summary.interleaving is not None
    assert summary.interleaving.alone is not None
    assert summary.interleaving.alone.qps_ratio == pytest.approx(1, abs=0.02)


async def test_a_control_that_fails_when_loaded_alone_is_a_warning(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.slice_error = lambda _arm, _copy, _step, order: "lost" if order.id.startswith("alone") else None
    folder, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=6))
    control = next(run for run in folder.runs() if (run.block, run.arm, run.copy_number) == (1, "glibc", 1))
    assert not control.failed
    assert any("loaded alone, it failed: lost" in warning for warning in control.warnings)
    assert summary.interleaving is not None
    assert summary.interleaving.alone is None


async def test_short_studies_do_not_load_the_control_alone(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    folder, _, _ = await study(script, paths, tmp_path, interleaved(blocks=2))
    assert not (folder.block_path(1) / ALONE_FILE).exists()


async def test_a_slice_whose_connections_were_lost_before_its_measured_part_is_the_arms_failure(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.measured_share = lambda arm, _copy, order: 0.0 if arm == "jemalloc" and order.id.startswith(STEP) else 1.0
    script.ignored_errors = lambda arm, _copy, _order: 8 if arm == "jemalloc" else 0
    folder, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=1))
    (failed,) = [run for run in summary.runs if run.arm == "jemalloc"]
    assert "every connection was lost" in failed.failures[STEP]
    assert not any(run.failures for run in summary.runs if run.arm == "glibc")
    slices = read_slices(folder.block_path(1) / SLICES_FILE)
    assert {one.arm for one in slices if one.failed} == {"jemalloc"}


async def test_a_slice_that_passed_while_the_load_program_stood_still_is_made_again(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    pauses = {(arm, number): times for arm, number, times in (("jemalloc", 1, 3), ("glibc", 2, 1))}

    def share(arm: str, copy_number: int, order: SliceOrder) -> float:
        if order.id != f"{STEP}/1" or not pauses.get((arm, copy_number)):
            return 1.0
        pauses[arm, copy_number] -= 1
        return 0.0

    script.measured_share = share
    folder, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=1))
    assert set(pauses.values()) == {0}
    assert all(run.valid and not run.failures for run in summary.runs)
    assert all(one.queries > 0 for one in read_slices(folder.block_path(1) / SLICES_FILE))
    told = {(run.arm, run.copy_number): run.warnings for run in folder.runs()}
    assert "made 4 times, since the load program stood still" in " ".join(told["jemalloc", 1])
    assert "made 2 times, since the load program stood still" in " ".join(told["glibc", 2])
    assert "stood still" not in " ".join(told["glibc", 1])


async def test_a_load_program_that_never_runs_ends_the_tries(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.measured_share = lambda arm, _copy, order: 0.0 if arm == "jemalloc" and order.id.startswith(STEP) else 1.0
    _, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=1))
    (failed,) = [run for run in summary.runs if run.arm == "jemalloc"]
    assert "stood still during it, 5 times in a row" in failed.failures[STEP]


@pytest.mark.parametrize(
    ("design", "rest"),
    [({}, ";"), ({"cycles": None}, ", with a longer steps.measure;"), ({"time": 600}, ", with a longer design.time;")],
)
async def test_transactions_longer_than_a_slice_end_the_study_in_its_first_block(
    script: Script, paths: HostPaths, tmp_path: Path, design: dict[str, Any], rest: str
) -> None:
    loaded: list[float] = []

    def qps(arm: str, _copy: int, _step: object, order: SliceOrder) -> float:
        loaded.append(order.measure_s)
        return 5.0 if order.measure_s >= 30 else 0.0

    script.slice_qps = qps
    with pytest.raises(HostError, match=r"no transaction of the control ended within a slice of 2 s") as raised:
        await study(script, paths, tmp_path, interleaved(**design))
    assert f"--set design.slice=32s, in which about 10 end{rest}" in raised.value.hint
    assert max(loaded) == 32.0
    assert sum(loaded) < 100, "the study ended after its first cycle"


@pytest.mark.parametrize("kind", ["interleaved", "blocks"])
async def test_an_arm_whose_data_cannot_be_prepared_fails_and_not_the_study(
    script: Script, paths: HostPaths, tmp_path: Path, kind: str
) -> None:
    script.unprepared["jemalloc"] = "initialisation failed with exit code 1\n  error log: [ERROR] no key management"
    folder, summary, _ = await study(script, paths, tmp_path, interleaved(kind=kind))
    failed = [run for run in folder.runs() if run.arm == "jemalloc"]
    assert "no key management" in failed[0].failed
    assert all(run.failed for run in failed)
    assert all(run.valid for run in summary.runs if run.arm == "glibc")


async def test_an_arm_without_a_transaction_is_a_result(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.slice_qps = lambda arm, _copy, _step, _order: 0.0 if arm == "jemalloc" else 1000.0
    _, summary, _ = await study(script, paths, tmp_path, interleaved())
    assert all(run.failures for run in summary.runs if run.arm == "jemalloc")
