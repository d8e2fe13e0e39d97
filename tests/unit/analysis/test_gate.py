"""The gate of whole studies on a fake host: planted effects, failures, interruptions, looks; exact numbers.

Its formats: golden files of each outcome, JUnit and Bencher's by their own rules.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from mydyno.analysis.base import Examined
from mydyno.analysis.gate import analyse, bencher, document, junit
from mydyno.cli.gate_runner import markdown
from mydyno.document.printers import Paper
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.evaluation.facts import facts_of, summarise
from mydyno.execution.interim import is_gate_decided
from mydyno.execution.interleaved.study_time import StudyTime
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, StepSpec, ThresholdSpec
from mydyno.model.definition.plan import Design, make_plan
from mydyno.model.definition.specs import VerdictSpec
from mydyno.model.stored.analyses import GateComparison, GateRecord, Outcome
from mydyno.model.stored.records import Evidence
from mydyno.reports.page import render_page
from mydyno.results.families import families
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from mydyno.verdicts.threshold import overall
from tests.support import fake_answer
from tests.support.fake_environment import Watched, opener
from tests.support.fake_interleaved_folder import build
from tests.support.fake_script import Script, experiment
from tests.support.golden import check_golden
from tests.support.study_times import allowing, with_time

QPS = ThresholdSpec(metric="qps", limit=-0.02)
COST = ThresholdSpec(metric="server_cpu_us_per_query", limit=0.03)


class KilledError(Exception):
    """Ends the program between two slices."""


def printed(result: StudyResult) -> str:
    out = io.StringIO()
    Paper(out, 80).document(document(result))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def words(folder: StudyFolder) -> str:
    return " ".join(printed(StudyResult.load(folder)).split())


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


def judged(folder: StudyFolder, *thresholds: ThresholdSpec) -> GateRecord:
    found = facts_of(folder, thresholds or None).gate
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [(0.0, "passed"), (-0.01, "passed"), (-0.03, "worse"), (-0.05, "worse")],
)
async def test_planted_effects_have_their_outcome(
    script: Script, paths: HostPaths, tmp_path: Path, effect: float, outcome: Outcome
) -> None:
    planted(script, effect)
    result = judged(await run(script, paths, tmp_path, asked()))
    assert result.outcome == outcome
    (one,) = result.comparisons
    assert one.ratio == pytest.approx(1 + effect, abs=0.004)
    assert one.plain is None, "nothing is adjusted on a quiet host"
    assert (result.obstacle, result.next_step, result.needed_s, result.late) == ("", "", None, False)


async def test_a_switched_setting_that_may_last_cannot_pass(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    planted(script, 0.0)
    old, new = asked().arms
    lasts = new.model_copy(update={"treatments": {"variables": {"innodb_io_capacity": 400}}})
    folder = await run(script, paths, tmp_path, asked().model_copy(update={"arms": (old, lasts)}))
    plan = folder.path / "plan.json"
    plan.write_text(plan.read_text().replace('"interleaved"', '"switchback"'))
    result = judged(folder)
    assert result.outcome == "undecided"
    assert "lasts longer than a slice" in result.comparisons[0].reason


async def test_an_effect_at_the_limit_cannot_be_told_and_the_time_is_given(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    planted(script, -0.02, noise=0.02)
    result = judged(await run(script, paths, tmp_path, asked()))
    assert result.outcome == "undecided"
    assert result.comparisons[0].reason == "the interval contains the limit"
    assert result.next_step.startswith(("If the effects are as estimated, ", "The effect is too close"))


@pytest.mark.parametrize(("error_rate", "outcome"), [(0.05, "passed"), (0.001, "undecided")])
async def test_the_tests_are_at_the_error_rate_that_is_set(
    script: Script, paths: HostPaths, tmp_path: Path, error_rate: float, outcome: Outcome
) -> None:
    """With six blocks no permutation has a p-value below 1 in 729."""
    planted(script, 0.0)
    what = asked().model_copy(update={"verdict": VerdictSpec(error_rate=error_rate)})
    folder = await run(script, paths, tmp_path, what)
    result = StudyResult.load(folder)
    assert result.summary.gate is not None
    assert (result.summary.gate.outcome, result.summary.alpha) == (outcome, error_rate)
    text = words(folder)
    assert f"at {error_rate * 100:g} %; the bounds" in text
    assert "tested together" not in text, "those are the comparisons of the report"


async def test_an_arm_that_crashes_is_worse_and_an_unproved_one_cannot_be_told(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    planted(script, 0.1)
    script.slice_error = lambda arm, _copy, _step, order: (
        "lost connection" if arm == "new" and order.stream % 5 == 0 else None
    )
    result = judged(await run(script, paths, tmp_path / "crash", asked()))
    assert result.outcome == "worse"
    assert result.comparisons[0].outcome == "failed"
    assert "lost connection" in result.comparisons[0].reason
    script.slice_error = lambda *_: None
    script.evidence = lambda _: Evidence(treatment="fake", holds=False, text="malloc is libc's")
    what = asked().model_copy(
        update={"arms": tuple(one.model_copy(update={"treatments": {"fake": 1}}) if one.name == "new" else one
                              for one in asked().arms)}
    )  # fmt: skip
    result = judged(await run(script, paths, tmp_path / "unproved", what))
    assert result.outcome == "undecided"
    assert "treatment not proved (6 blocks)" in result.comparisons[0].reason


async def test_the_commits_of_arms_that_are_built_from_source_are_named(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    built = {"commit": "0123456789abcdef", "subject": "Speed up gets", "layout": 1}
    script.evidence = lambda _: Evidence(treatment="server", holds=True, text="", facts={"build": built})
    arms = tuple(one.model_copy(update={"treatments": {"fake": 1}}) for one in asked().arms)
    folder = await run(script, paths, tmp_path, asked().model_copy(update={"arms": arms}))
    assert "new: 0123456789ab (Speed up gets), old: 0123456789ab (Speed up gets)" in words(folder)


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
    assert result.outcome == "undecided"
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
    summary = summarise(folder)
    assert summary.gate is not None and summary.gate.outcome == "passed"
    assert (summary.look, max(run.block for run in summary.runs), summary.alpha) == (6, 6, 0.004)
    assert {effect.verdict for effect in summary.effects if effect.primary} == {"inconclusive"}
    folder.journal.append("study_resumed")
    folder.write_plan(folder.plan().model_copy(update={"blocks": make_plan(what, Design("interleaved"), 10).blocks}))
    later = summarise(folder).gate
    assert later is not None and later.comparisons == summary.gate.comparisons, "what an analysis decided stands"
    assert (later.outcome, later.obstacle) == ("passed", "the study is interrupted: 6 of 10 blocks are finished")
    assert "The study is interrupted: 6 of 10 blocks are finished." in words(folder)
    running = summarise(folder, running=True).gate
    assert running is not None and running.obstacle == "", "a study that runs is not interrupted"


async def test_thresholds_are_judged_together_and_selected_by_arm_and_step(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    planted(script, -0.1)
    folder = await run(script, paths, tmp_path, asked(QPS, COST, arms=("old", "new", "other")))
    found = {(one.metric, one.arm): one.outcome for one in judged(folder).comparisons}
    assert found["qps", "new"] == "worse"
    assert found["qps", "other"] == "passed"
    assert set(found) == {(m, a) for m in ("qps", "server_cpu_us_per_query") for a in ("new", "other")}
    only = judged(folder, QPS.model_copy(update={"arms": ("other",), "steps": ("oltp_read_only",)}))
    assert [one.arm for one in only.comparisons] == ["other"]
    assert (only.outcome, only.late) == ("passed", True)


async def test_a_metric_that_was_not_measured_cannot_be_told(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    planted(script, 0.0)
    result = judged(await run(script, paths, tmp_path, asked(QPS, ThresholdSpec(metric="tpmc", limit=-0.02))))
    assert [one.outcome for one in result.comparisons] == ["passed", "undecided"]
    assert result.comparisons[1].reason.startswith("was not measured; measured: qps, tps")
    assert result.outcome == "undecided"


def of(metric: str, limit: float, outcome: Outcome, arm: str = "new", **found: Any) -> GateComparison:
    return GateComparison.model_validate(
        {"metric": metric, "step": "oltp_read_write-16", "arm": arm, "control": "old", "limit": limit,
         "outcome": outcome, "n": 10, **found}
    )  # fmt: skip


FINE = of("qps", 0.98, "passed", ratio=1.003, low=0.991, high=1.0154, arm_value=10432.5)
WORSE = of("latency_p99_us", 1.1, "worse", ratio=1.31, low=1.19, high=1.44, arm_value=9123.0)
OPEN = FINE.model_copy(update={
    "step": "oltp_read_write-64", "outcome": "undecided", "reason": "the interval contains the limit", "ratio": 0.985,
    "low": 0.96, "high": 1.01, "blocks_needed": 40, "plain": 0.973,
})  # fmt: skip
FAILED = of("qps", 0.98, "failed", "other|<b>", n=0, reason="other|<b> failed in 2 of 10 blocks (signal 11\x07)")
BMF = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                "^.{1,64}$": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        }
    },
}
"""Bencher's own schema, with its limit on the length of names, and nothing beyond it."""


def result(*comparisons: GateComparison, builds: tuple[str, ...] = (), look: int | None = 10, alpha: float = 0.004,
           **changes: Any) -> StudyResult:  # fmt: skip
    """A study of 30 minutes with this decision."""
    flush = fake_answer.experiment(("old", "new"), name="flush", question="Is the new build as fast as the old one?")
    runs = []
    for one, made in zip(fake_answer.runs(flush, 1), builds or ("",), strict=False):
        commit, _, subject = made.partition(" ")
        facts = {"build": {"commit": commit, "subject": subject, "layout": 1}} if made else {}
        evidence = Evidence(treatment="server", holds=True, text="", facts=facts)
        runs.append(one.model_copy(update={"evidence": (evidence,)}))
    record = GateRecord(outcome=overall(comparisons), comparisons=comparisons, **changes)
    host = {"hostname": "bench-1", "cpus_usable": 16, "memory_bytes": 64 << 30}
    study = fake_answer.study(flush).model_copy(update={"study": "flush-20261123T060000Z", "host": host})
    summary = fake_answer.summary(flush, (), look=look, alpha=alpha, gate=record, runs=tuple(runs))
    records = {one.folder: one for one in fake_answer.records(flush, 1, 30.0)}
    return StudyResult(StudyFolder(Path("flush")), study, make_plan(flush), records, summary)


RESULTS = {
    "passed": result(FINE, alpha=0.05, look=None),
    "worse": result(FINE, WORSE, OPEN, FAILED, late=True, builds=("d9e1d3b3763d Begin", "a8a67d39836c Fix")),
    "undecided": result(
        FINE, OPEN, next_step="If the effects are as estimated, a decision takes about 1 hour more: "
            "mydyno resume flush-20261123 --time 1h",
    ),
    "interrupted": result(
        FINE.model_copy(update={"outcome": "undecided", "reason": "no interim analysis has been reached yet",
                                "ratio": None, "low": None, "high": None, "arm_value": None}),
        obstacle="the study is interrupted: 3 of 10 blocks are finished", next_step="To continue: mydyno resume flush",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_the_terminal_and_the_markdown_are_as_the_golden_files(name: str) -> None:
    text = printed(RESULTS[name])
    check_golden(f"gate-{name}.txt", text)
    check_golden(f"gate-{name}.md", markdown(RESULTS[name]))
    assert max(map(len, text.splitlines())) <= 80


def test_the_report_of_a_study_with_limits_has_their_outcome(tmp_path: Path) -> None:
    folder = build(tmp_path / "plain")
    assert 'id="gate"' not in render_page(folder)
    summary, of = folder.summary(), folder.study().experiment
    assert summary is not None
    found = analyse(
        Examined(
            experiment=of, runs=summary.runs, alpha=summary.alpha, effects=summary.effects, path=folder.path,
            families=list(families(of, summary.runs, tuple(summary.metrics))), every_record=list(folder.runs()),
            plan=folder.plan(), thresholds=(ThresholdSpec(metric="qps", limit=-0.1, arms=("jemalloc",)),),
        )
    )  # fmt: skip
    assert found is not None and found.outcome == "passed" and found.late, found
    folder.write_summary(summary.model_copy(update={"gate": found}))
    page = render_page(folder)
    assert "Both comparisons are within their limits." in page
    first = answer_of(StudyResult.load(folder)).answer[0]
    assert first == "Passed: Both comparisons are within their limits.", "a gate's decision comes first"
    assert page.count(">passed<") == len(found.comparisons) == 2
    plain = {(one.metric, one.step, one.arm): one.unadjusted for one in summary.effects}
    for one in found.comparisons:
        before = plain[one.metric, one.step, one.arm]
        assert before is not None and one.plain == before[0] != one.ratio
    assert ">plain</th>" in page
    assert 'id="gate"' in page


def test_junit_counts_failures_and_errors_and_is_well_formed() -> None:
    root = ET.fromstring(junit(RESULTS["worse"]))
    suite = root[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "4",
        "2",
        "1",
        "0",
    )
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [["system-out"], ["failure"], ["error"], ["failure"]]
    failure = cases[1].find("failure")
    assert failure is not None
    assert failure.get("type") == "worse"
    assert failure.get("message") == "effect +31 %, bounds +19 % … +44 %, limit +10 %"
    assert cases[3].get("name") == "qps: other|<b> no worse than −2 % against old"
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 4
    interrupted = ET.fromstring(junit(RESULTS["interrupted"]))[0].find("testcase/error")
    assert interrupted is not None
    assert "the study is" in (interrupted.text or "").lower()


@pytest.mark.parametrize("name", RESULTS)
def test_the_json_is_what_bencher_takes(name: str) -> None:
    found = json.loads(bencher(RESULTS[name]))
    jsonschema.validate(found, BMF)
    if name == "passed":
        assert found == {
            "flush: new against old, oltp_read_write-16": {
                "qps": {"value": 10432.5},
                "qps-ratio": {"value": 1.003, "lower_value": 0.991, "upper_value": 1.0154},
            }
        }
    if name == "interrupted":
        assert found == {}


def test_markup_from_outside_stays_text() -> None:
    assert "other\\|&lt;b&gt;" in markdown(RESULTS["worse"])


def test_a_stream_without_signs_gets_plain_letters() -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", write_through=True) as out:
        Paper(out).document(document(RESULTS["worse"]))
        assert b"-2 %" in raw.getvalue()
