"""The gate of whole studies on a fake host: planted effects, failures, interruptions, looks; exact numbers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mydyno.evaluation.facts import summarise
from mydyno.execution.interleaved.study_time import StudyTime
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, StepSpec, ThresholdSpec
from mydyno.model.definition.specs import VerdictSpec
from mydyno.model.stored.records import Evidence
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from mydyno.verdicts.threshold import Outcome
from mydyno.wording.gate import GateResult, gate_study, is_gate_decided
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.study_times import allowing, with_time

QPS = ThresholdSpec(metric="qps", limit=-0.02)
COST = ThresholdSpec(metric="server_cpu_us_per_query", limit=0.03)


class KilledError(Exception):
    """Ends the program between two slices."""


def asked(*thresholds: ThresholdSpec, arms: tuple[str, ...] = ("old", "new"), **design: object) -> Experiment:
    plain = {"kind": "interleaved", "blocks": 6, "cycles": 3, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    steps = (StepSpec(workload="oltp_read_only", connections=(4,), warmup=2, measure=20),)
    return experiment(arms, design={**plain, **design}, steps=steps, thresholds=thresholds or (QPS,))


def planted(script: Script, effect: float, noise: float = 0.002, seed: int = 1) -> None:
    random = Random(seed)
    script.slice_qps = lambda arm, _copy, _step, _order: 1000.0 * (1 + effect * (arm == "new")) * random.gauss(1, noise)


async def run(
    script: Script, paths: HostPaths, tmp_path: Path, what: Experiment, timing: type[StudyTime] = StudyTime
) -> StudyFolder:
    request = Request(what, "", tmp_path / "studies", (), is_gate_decided, timing=timing)
    return (await run_study(request, paths, Watched(script), opener(script)))[0]


def judged(folder: StudyFolder, *thresholds: ThresholdSpec) -> GateResult:
    return gate_study(folder, summarise(folder), thresholds or None)


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [(0.0, Outcome.PASSED), (-0.01, Outcome.PASSED), (-0.03, Outcome.WORSE), (-0.05, Outcome.WORSE)],
)
async def test_planted_effects_have_their_outcome(
    script: Script, paths: HostPaths, tmp_path: Path, effect: float, outcome: Outcome
) -> None:
    planted(script, effect)
    result = judged(await run(script, paths, tmp_path, asked()))
    assert result.outcome is outcome
    (one,) = result.comparisons
    assert one.ratio == pytest.approx(1 + effect, abs=0.004)
    assert one.plain is None, "nothing is adjusted on a quiet host"
    assert (result.obstacle, result.next_step, result.late, result.look) == ("", "", False, None)


async def test_a_switched_setting_that_may_last_cannot_pass(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    planted(script, 0.0)
    old, new = asked().arms
    lasts = new.model_copy(update={"treatments": {"variables": {"innodb_io_capacity": 400}}})
    folder = await run(script, paths, tmp_path, asked().model_copy(update={"arms": (old, lasts)}))
    plan = folder.path / "plan.json"
    plan.write_text(plan.read_text().replace('"interleaved"', '"switchback"'))
    result = judged(folder)
    assert result.outcome is Outcome.UNDECIDED
    assert "lasts longer than a slice" in result.comparisons[0].reason


async def test_an_effect_at_the_limit_cannot_be_told_and_the_time_is_given(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    planted(script, -0.02, noise=0.02)
    result = judged(await run(script, paths, tmp_path, asked()))
    assert result.outcome is Outcome.UNDECIDED
    assert result.comparisons[0].reason == "the interval contains the limit"
    assert result.next_step.startswith(("If the effects are as estimated, ", "The effect is too close"))


@pytest.mark.parametrize(("error_rate", "outcome"), [(0.05, Outcome.PASSED), (0.001, Outcome.UNDECIDED)])
async def test_the_tests_are_at_the_error_rate_that_is_set(
    script: Script, paths: HostPaths, tmp_path: Path, error_rate: float, outcome: Outcome
) -> None:
    """With six blocks no permutation has a p-value below 1 in 729."""
    planted(script, 0.0)
    what = asked().model_copy(update={"verdict": VerdictSpec(error_rate=error_rate)})
    folder = await run(script, paths, tmp_path, what)
    result = judged(folder)
    assert (result.outcome, result.alpha, result.error_rate) == (outcome, error_rate, error_rate)
    assert "tested together" not in result.scope, "those are the comparisons of the report"
    summary = folder.summary()
    assert summary is not None
    assert summary.alpha == error_rate


async def test_an_arm_that_crashes_is_worse_and_an_unproved_one_cannot_be_told(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    planted(script, 0.1)
    script.slice_error = lambda arm, _copy, _step, order: (
        "lost connection" if arm == "new" and order.stream % 5 == 0 else None
    )
    result = judged(await run(script, paths, tmp_path / "crash", asked()))
    assert result.outcome is Outcome.WORSE
    assert result.comparisons[0].outcome is Outcome.FAILED
    assert "lost connection" in result.comparisons[0].reason
    script.slice_error = lambda *_: None
    script.evidence = lambda _: Evidence(treatment="fake", holds=False, text="malloc is libc's")
    what = asked().model_copy(
        update={"arms": tuple(one.model_copy(update={"treatments": {"fake": 1}}) if one.name == "new" else one
                              for one in asked().arms)}
    )  # fmt: skip
    result = judged(await run(script, paths, tmp_path / "unproved", what))
    assert result.outcome is Outcome.UNDECIDED
    assert "treatment not proved (6)" in result.comparisons[0].reason


async def test_the_commits_of_arms_that_are_built_from_source_are_named(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    built = {"commit": "0123456789abcdef", "subject": "Speed up gets"}
    script.evidence = lambda _: Evidence(treatment="server", holds=True, text="", facts={"build": built})
    arms = tuple(one.model_copy(update={"treatments": {"fake": 1}}) for one in asked().arms)
    result = judged(await run(script, paths, tmp_path, asked().model_copy(update={"arms": arms})))
    assert result.builds == "new: 0123456789ab (Speed up gets), old: 0123456789ab (Speed up gets)"


async def test_an_interrupted_study_cannot_be_told_until_it_is_resumed(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    planted(script, -0.5)
    inner = script.slice_qps

    def kill(arm: str, copy: int, step: object, order: object) -> float:
        if script.events.count("block 4/6"):
            raise KilledError
        return inner(arm, copy, step, order)  # type: ignore[arg-type]

    script.slice_qps = kill
    with pytest.raises(KilledError):
        await run(script, paths, tmp_path, asked())
    (path,) = (tmp_path / "studies").iterdir()
    result = judged(StudyFolder.open(path))
    assert result.outcome is Outcome.UNDECIDED
    assert result.obstacle == "the study is interrupted: 3 of 6 blocks are finished"
    assert result.next_step == f"To continue: mydyno resume {path.name}"
    assert result.comparisons[0].ratio is None


async def test_a_study_with_a_time_ends_at_the_first_look_that_decides_every_threshold(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    """The primary contrast stays open (its margin is tiny), and is not waited for."""
    planted(script, 0.0, noise=0.004)
    what = with_time(asked(QPS), 10, cycles=3)
    what = what.model_copy(update={"verdict": what.verdict.model_copy(update={"margin": 0.00001, "cost": False})})
    folder = await run(script, paths, tmp_path, what, allowing([10]))
    result = judged(folder)
    assert result.outcome is Outcome.PASSED
    assert (result.look, result.blocks, result.alpha) == (6, 6, 0.004)
    assert {effect.verdict for effect in summarise(folder).effects if effect.primary} == {"inconclusive"}


async def test_thresholds_are_judged_together_and_selected_by_arm_and_step(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    planted(script, -0.1)
    folder = await run(script, paths, tmp_path, asked(QPS, COST, arms=("old", "new", "other")))
    found = {(one.metric.name, one.arm): one.outcome for one in judged(folder).comparisons}
    assert found["qps", "new"] is Outcome.WORSE
    assert found["qps", "other"] is Outcome.PASSED
    assert set(found) == {(m, a) for m in ("qps", "server_cpu_us_per_query") for a in ("new", "other")}
    only = judged(folder, QPS.model_copy(update={"arms": ("other",), "steps": ("oltp_read_only",)}))
    assert [one.arm for one in only.comparisons] == ["other"]
    assert (only.outcome, only.late) == (Outcome.PASSED, True)


async def test_a_metric_that_was_not_measured_cannot_be_told(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    planted(script, 0.0)
    result = judged(await run(script, paths, tmp_path, asked(QPS, ThresholdSpec(metric="tpmc", limit=-0.02))))
    assert [one.outcome for one in result.comparisons] == [Outcome.PASSED, Outcome.UNDECIDED]
    assert result.comparisons[1].reason.startswith("was not measured; measured: qps, tps")
    assert result.outcome is Outcome.UNDECIDED
