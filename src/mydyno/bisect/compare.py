"""Compares one commit with the good end: a study with the good end as control, decided by its verdict; all of them in
the bisection's folder: bisect.json, journal.jsonl, the studies, and in the end result.json and the report.

The two ends are compared first. They must be shown to differ at a load level, and by what they differ every other
commit is decided there: a commit is bad if it is significantly beyond the limit, good if significantly within it
(verdicts/threshold.py). Without a threshold the limit is half of the difference of the ends (the square root of their
ratio): a commit that has the whole difference and one that has none are then equally far from it. But an estimate can
be more than twice the truth; so the limit is never beyond the near end of the interval, which the true difference is
beyond.

The error rate of a bisection is divided over its studies, so that all of them together keep to it (Bonferroni). The
path is right if every decision on it is. The studies that are planned, one of the ends and one for each halving, have
an equal share each, and one more share is for studies beyond those (commits that could not be decided): a half of it, a
sixth, a twelfth, …, which sum to the whole. The share of a study depends on its number alone, never on a result, so the
sum bounds the chance of a wrong decision whatever path the results lead to.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from mydyno.errors import BuildError, ServerError, UserError
from mydyno.evaluation.facts import summarise
from mydyno.execution.environments.environment import Opener
from mydyno.execution.interim import Decided, is_gate_decided
from mydyno.execution.interleaved.study_time import overhead_s
from mydyno.execution.live import Watcher
from mydyno.execution.planning.design_choice import with_copies
from mydyno.execution.planning.time_plan import next_look_s, shape_of
from mydyno.execution.study_record import Request
from mydyno.files.atomic import write_text
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ArmSpec, Experiment, StepSpec, ThresholdSpec
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.metrics import metric_source
from mydyno.model.stored.bisection import (
    BISECT_FORMAT,
    BisectRecord,
    BisectResult,
    Commit,
    Comparison,
    Ends,
    Outcome,
    SkipReason,
)
from mydyno.model.stored.summary import EffectRecord, Summary
from mydyno.results.precision import alarm_of, half_width, looks_of
from mydyno.store.logs import Journal
from mydyno.store.study_folder import StudyFolder
from mydyno.study import resume_study, run_study
from mydyno.wording.numbers import ratio_interval
from mydyno.wording.verdicts import alarm_clause, cut, note_of, recorded_failure

LEAST_RATE = 0.0001
"""Below this no study is made: labels are not permuted often enough to decide anything (stats/permutation.py)."""


def comparisons_needed(commits: int) -> int:
    """The comparisons of the ends and of the commits in between, if none is skipped."""
    return 1 + (math.ceil(math.log2(commits)) if commits > 1 else 0)


def rate_of_study(error_rate: float, commits: int, made: int) -> float:
    """The error rate of the next study, after so many were made, of a bisection over so many commits."""
    planned = comparisons_needed(commits)
    share = error_rate / (planned + 1)
    beyond = made - planned + 1
    return share if beyond <= 0 else share / (beyond * (beyond + 1))


RECORD, RESULT = "bisect.json", "result.json"
ENDS_EVENT, COMPARED_EVENT = "ends_compared", "commit_compared"


class BisectFolder:
    """One bisection on disk. What the journal has is not done again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path / "journal.jsonl")

    @classmethod
    def create(cls, path: Path, record: BisectRecord) -> BisectFolder:
        """A new folder. Raises UserError if the path is already taken."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise UserError(f"the folder {path} exists already") from None
        folder = cls(path)
        write_text(path / RECORD, record.model_dump_json(indent=1))
        folder.journal.append("bisection_created", bisection=record.bisection)
        return folder

    @classmethod
    def open(cls, path: Path) -> BisectFolder:
        """An existing one. Raises UserError if it is none, or of a newer format."""
        if not (path / RECORD).is_file():
            raise UserError(f"{path} is not a bisection: it has no {RECORD}")
        folder = cls(path)
        found = folder.record().format
        if found != BISECT_FORMAT:
            words = f"{path} has format {found}; this mydyno reads format {BISECT_FORMAT}"
            raise UserError(words, "use a newer mydyno")
        return folder

    @property
    def studies(self) -> Path:
        """Where the studies of its comparisons are."""
        return self.path / "studies"

    @property
    def repository(self) -> Path:
        """git bisect's own repository; made again whenever the bisection is continued."""
        return self.path / "repository"

    def record(self) -> BisectRecord:
        """bisect.json. Raises UserError if it is damaged."""
        try:
            return BisectRecord.model_validate_json((self.path / RECORD).read_bytes())
        except (OSError, ValidationError) as error:
            raise UserError(f"{self.path / RECORD} cannot be read: {error}", "is the folder complete?") from error

    def ends(self) -> Ends | None:
        """The comparison of good and bad; None if it was not finished."""
        events = [event for event in self.journal.read() if event["event"] == ENDS_EVENT]
        return Ends.model_validate(events[-1]["ends"]) if events else None

    def comparisons(self) -> list[Comparison]:
        """The finished comparisons of commits in between, in their order."""
        return [
            Comparison.model_validate(event["comparison"])
            for event in self.journal.read()
            if event["event"] == COMPARED_EVENT
        ]

    def next_error_rate(self) -> float:
        """The error rate of the next study that is made."""
        record, made = self.record(), len(list(self.studies.glob("*/study.json")))
        return rate_of_study(record.error_rate, record.commits, made)

    def study_of(self, experiment: str) -> Path | None:
        """The study of a comparison that was begun, by its experiment's name; None if there is none."""
        found = sorted(self.studies.glob(f"{experiment}-*/study.json"))
        return found[-1].parent if found else None

    def result(self) -> BisectResult | None:
        """result.json; None if there is none yet."""
        path = self.path / RESULT
        return BisectResult.model_validate_json(path.read_bytes()) if path.is_file() else None

    def write_result(self, result: BisectResult) -> None:
        """Write result.json as a whole."""
        write_text(self.path / RESULT, result.model_dump_json(indent=1))


GOOD, CANDIDATE = "good", "candidate"
ENDS_LONGER = 2
"""The ends may take so many times as long as a commit: if they stay undecided, nothing is found."""
AGAIN = "-again"
"""At the end of the name of a study that repeats one."""
NAME_LETTERS = 29
"""Longest part of the experiment's name in the names of studies: with a commit's twelve letters and AGAIN they have at
most 48."""
EndState = Literal["differ", "no difference", "better", "undecided"]


@dataclass(frozen=True)
class Tools:
    """What a bisection needs of its surroundings; tests bring their own builder and opener."""

    paths: HostPaths
    watch: Callable[[Experiment], AbstractContextManager[Watcher]]
    """A new watcher for a study."""
    build: Callable[[BuildSpec], Awaitable[object]]
    """Builds a commit. Raises BuildError."""
    opener: Opener
    say: Callable[[str], None]


def build_of(experiment: Experiment) -> BuildSpec | None:
    """The build of the control; None if it is no build of a repository's commit."""
    server = experiment.arm(experiment.control).treatments.get("server")
    if not isinstance(server, dict) or "build" not in server:
        return None
    build = BuildSpec.model_validate(server["build"])
    return build if build.git is not None else None


def experiment_for(record: BisectRecord, commit: Commit, step: str | None, limit: float | None) -> Experiment:
    """The experiment that compares one commit with the good end, at one load level or at all of them."""
    base = record.experiment
    control = base.arm(base.control)

    def arm(name: str, one: Commit) -> ArmSpec:
        server: dict[str, Any] = control.treatments["server"]
        build = {**server["build"], "ref": one.hash}
        return ArmSpec(name=name, treatments={**control.treatments, "server": {"build": build}},
                       instances=control.instances)  # fmt: skip

    return base.model_copy(
        update={
            "name": f"{base.name[:NAME_LETTERS]}-{commit.short}",
            "question": f"Is {commit.short} worse than {record.good.short}?",
            "published": (),
            "control": GOOD,
            "arms": (arm(GOOD, record.good), arm(CANDIDATE, commit)),
            "steps": base.steps if step is None else (_only(base, step),),
            "design": base.design.model_copy(update={"kind": "interleaved"}),
            "verdict": base.verdict.model_copy(update={"primary": (record.metric,), "cost": False, "compare": ()}),
            "thresholds": () if limit is None else (ThresholdSpec(metric=record.metric, limit=limit - 1.0),),
        }
    )


def _only(experiment: Experiment, step: str) -> StepSpec:
    """The step of that id as the file has it, at this load level alone; of repeated ids it loses the number."""
    levels = [level for spec in experiment.steps for level in spec.levels()]
    ids = (one.id for one in experiment.resolved_steps)
    return next(level for level, name in zip(levels, ids, strict=True) if name == step)


async def compare_ends(folder: BisectFolder, tools: Tools) -> Ends:
    """Whether bad is worse than good. Raises HostError and StudyError, also for an end that does not build or start."""
    record = folder.record()
    given = None if record.threshold is None else _limit(record.metric, record.threshold)
    experiment = experiment_for(record, record.bad, record.step, given)
    for commit in (record.good, record.bad):
        await _build(experiment, commit, tools)

    def is_decided(_: StudyFolder, summary: Summary) -> bool:
        state, best = _end_state(summary, record)
        if state != "differ" or best is None or given is not None:
            return state != "undecided"
        # More precise ends move the limit to the middle, where commits take the least time.
        return _limit_between(best) == _half(best)

    longest_s = None if record.longest_s is None else ENDS_LONGER * record.longest_s
    study, summary, times = await _study(folder, experiment, tools, is_decided, longest_s)
    state, best = _end_state(summary, record)
    effect = best or next(iter(_effects(summary, record.metric)), None)
    outcome: Outcome = {"differ": "bad", "no difference": "good", "better": "good"}.get(state, "skipped")  # type: ignore[assignment]
    comparison = _comparison(record.bad, outcome, study, summary, effect, times, folder.path)
    if state != "differ" or best is None or best.ratio is None:
        margin = experiment.verdict.margin_of(record.metric)
        reason = ""
        if state == "undecided" and effect is not None:
            reason = note_of(effect, margin) or f"the interval is {ratio_interval(effect.ci_low, effect.ci_high)}"
        return Ends(comparison=comparison.model_copy(update={"reason": reason}), state=state)
    limit = given if given is not None else _limit_between(best)
    return Ends(comparison=comparison, state="differ", step=record.step or best.step, limit=limit)


async def compare_commit(folder: BisectFolder, commit: Commit, ends: Ends, tools: Tools) -> Comparison:
    """Good, bad or skipped. Raises HostError and StudyError for what is not this commit's fault."""
    record = folder.record()
    experiment = experiment_for(record, commit, ends.step, ends.limit)
    if folder.study_of(experiment.name) is None and folder.next_error_rate() < LEAST_RATE:
        return _skipped(commit, "undecided", "too many commits were compared for the error rate")
    try:
        await _build(experiment, commit, tools)
    except BuildError as error:
        # The message continues with lines of the log, the hint has the log's path.
        return _skipped(commit, "build", "; ".join(filter(None, (error.message.partition("\n")[0], error.hint))))
    try:
        study, summary, times = await _study(folder, experiment, tools, is_gate_decided, record.longest_s)
    except ServerError as error:
        # The good end started in the comparison of the ends, with the same data.
        return _skipped(commit, "start", cut(error.message))
    assert summary.gate is not None
    (found,) = summary.gate.comparisons
    effect = next(iter(_effects(summary, record.metric)), None)
    outcomes: dict[str, Outcome] = {"worse": "bad", "passed": "good"}
    made = _comparison(commit, outcomes.get(found.outcome, "skipped"), study, summary, effect, times, folder.path)
    if made.outcome != "skipped":
        return made
    because: SkipReason = "undecided"
    if found.outcome == "failed":
        because = "failed"
    elif not any(run.valid for run in summary.runs if run.arm == CANDIDATE):
        because = "invalid"
    return made.model_copy(update={"skipped_because": because, "reason": found.reason})


async def _build(experiment: Experiment, commit: Commit, tools: Tools) -> None:
    spec = build_of(experiment)
    assert spec is not None
    await tools.build(spec.model_copy(update={"ref": commit.hash}))


async def _study(
    folder: BisectFolder,
    experiment: Experiment,
    tools: Tools,
    is_decided: Decided,
    longest_s: float | None,
) -> tuple[StudyFolder, Summary, int]:
    """Make, continue or read the study, and give it more time while it is undecided; (…, how often it had time).

    A study with a fixed number of blocks whose two copies of the control differ claims nothing. That happens by chance
    in one of 20 to 30; so it is made once more.
    """
    experiment = with_copies(experiment, tools.paths)
    path = folder.study_of(experiment.name)
    if path is None:
        verdict = experiment.verdict.model_copy(update={"error_rate": folder.next_error_rate()})
        experiment = experiment.model_copy(update={"verdict": verdict})
        source = folder.record().experiment_source
        request = Request(experiment, source, folder.studies, ("mydyno", "bisect"), is_decided)
        with tools.watch(experiment) as watcher:
            study, summary = await run_study(request, tools.paths, watcher, tools.opener)
    else:
        study = StudyFolder.open(path)
        summary = summarise(study)
        if study.is_interrupted(study.plan()):
            study, summary = await _continue(study, None, experiment, tools, is_decided)
    times = 1
    while longest_s is not None and not is_decided(study, summary):
        more_s = _more_s(study, summary, experiment, longest_s)
        before = _blocks(study)
        if more_s is None:
            break
        study, summary = await _continue(study, more_s, experiment, tools, is_decided)
        times += 1
        if _blocks(study) == before:
            break
    again = f"{experiment.name}{AGAIN}"
    alarm = alarm_of(summary.effects) if experiment.design.time is None else None
    is_first = not study.path.name.startswith(again) and not experiment.name.endswith(AGAIN)
    if alarm and is_first and folder.next_error_rate() >= LEAST_RATE:
        tools.say(f"{alarm_clause(alarm)}; compared once more")
        return await _study(folder, experiment.model_copy(update={"name": again}), tools, is_decided, longest_s)
    return study, summary, times


async def _continue(
    study: StudyFolder,
    time_s: float | None,
    experiment: Experiment,
    tools: Tools,
    is_decided: Decided,
) -> tuple[StudyFolder, Summary]:
    with tools.watch(experiment) as watcher:
        return await resume_study(study.path, tools.paths, watcher, tools.opener, time_s, decided=is_decided)


def _more_s(study: StudyFolder, summary: Summary, experiment: Experiment, longest_s: float) -> float | None:
    """The further time of an undecided study, up to the longest; None if it can have none."""
    left_s = longest_s - duration_s(study)
    time_s, done = experiment.design.time, _blocks(study)
    if time_s is None or looks_of(summary).next_after(done) is None:
        return None
    look_s = next_look_s(shape_of(experiment), done, overhead_s(study))
    if left_s < look_s:
        return None
    if any(effect.details.failure for effect in _effects(summary, experiment.verdict.leading)):
        return None
    return min(left_s, max(time_s, look_s, summary.gate.needed_s or 0.0 if summary.gate else 0.0))


def _blocks(study: StudyFolder) -> int:
    return len(study.block_spans_ns())


def duration_s(study: StudyFolder) -> float:
    """The time that the study's blocks took, without interruptions."""
    return sum(ended - began for began, ended in study.block_spans_ns().values()) / 1e9


def _effects(summary: Summary, metric: str) -> list[EffectRecord]:
    return [one for one in summary.effects if one.metric == metric and one.arm == CANDIDATE and one.primary]


def _end_state(summary: Summary, record: BisectRecord) -> tuple[EndState, EffectRecord | None]:
    """Whether the ends differ, and the effect at the load level where they do so most clearly."""
    effects = _effects(summary, record.metric)
    if summary.gate is not None:
        worse_at = {one.step for one in summary.gate.having("worse")}
        worse = [one for one in effects if one.step in worse_at]
        better: list[EffectRecord] = []
        done = summary.gate.outcome == "passed"
    else:
        lower_is_worse = is_higher_better(record.metric)
        worse = [one for one in effects if one.verdict == ("lower" if lower_is_worse else "higher")]
        better = [one for one in effects if one.verdict == ("higher" if lower_is_worse else "lower")]
        done = bool(effects) and all(one.verdict in ("equivalent", "higher", "lower") for one in effects)
    if worse:
        return "differ", max(worse, key=_clearness)
    if not done:
        return "undecided", None
    return ("better", max(better, key=_clearness)) if better else ("no difference", None)


def _clearness(effect: EffectRecord) -> float:
    """The effect in terms of its interval's half-width."""
    width = half_width(effect)
    return abs(math.log(effect.ratio)) / width if effect.ratio and width else 0.0


def is_higher_better(metric: str) -> bool:
    """Whether more of it is better."""
    source = metric_source(metric)
    return source is None or source.better != "lower"


def _limit(metric: str, threshold: float) -> float:
    return 1.0 - threshold if is_higher_better(metric) else 1.0 + threshold


def _half(ends: EffectRecord) -> float:
    assert ends.ratio is not None
    return math.sqrt(ends.ratio)


def _limit_between(ends: EffectRecord) -> float:
    """Half of what the ends differ by, or the near end of its interval where that is less."""
    half, near = _half(ends), ends.ci_high if _half(ends) < 1.0 else ends.ci_low
    if near is None:
        return half
    return max(half, near) if half < 1.0 else min(half, near)


def _skipped(commit: Commit, because: SkipReason, reason: str) -> Comparison:
    return Comparison(commit=commit, outcome="skipped", skipped_because=because, reason=reason)


def _comparison(
    commit: Commit,
    outcome: Outcome,
    study: StudyFolder,
    summary: Summary,
    effect: EffectRecord | None,
    times: int,
    below: Path,
) -> Comparison:
    return Comparison(
        commit=commit,
        outcome=outcome,
        skipped_because="undecided" if outcome == "skipped" else "",
        reason="" if effect is None else cut(recorded_failure(effect)),
        study=str(study.path.resolve().relative_to(below.resolve())),
        ratio=None if effect is None else effect.ratio,
        plain=None if effect is None or effect.unadjusted is None else effect.unadjusted[0],
        low=None if effect is None else effect.ci_low,
        high=None if effect is None else effect.ci_high,
        confidence=None if effect is None else 1.0 - summary.alpha,
        blocks=len({run.block for run in summary.runs}),
        duration_s=round(duration_s(study), 1),
        times=times,
    )
