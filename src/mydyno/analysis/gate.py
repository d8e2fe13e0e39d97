"""The decision of `mydyno gate`: a study's thresholds, what each comparison shows, and how long a decision would take;
as a part of the report, a document of its own, JUnit XML and Bencher Metric Format JSON.

Only what the study's design allows is examined: all blocks of a finished study with a fixed number, or those of the
latest look (model/definition/plan.py). The method is in verdicts/threshold.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from xml.etree import ElementTree as ET

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.parts import Cell, Document, Listed, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.language import agreed, listing
from mydyno.model.definition.experiment import ThresholdSpec
from mydyno.model.metrics import SLOWEST_STATEMENT, metric_source, ordered
from mydyno.model.stored.analyses import GateComparison, GateRecord, Outcome, StatementsRecord, StatementVerdict
from mydyno.model.stored.summary import RunSummary, Summary
from mydyno.results.families import contrast_family
from mydyno.results.precision import MOST_S, alarm_of, block_duration_s
from mydyno.stats.tost import FEWEST_BLOCKS
from mydyno.treatments.coexistence import lasting_names
from mydyno.verdicts.threshold import Bound, judge, overall
from mydyno.wording.advice import further
from mydyno.wording.numbers import blocks, bounds_text, effect_text, limit_text, metric_name, shows_plain
from mydyno.wording.scope_line import scope_line
from mydyno.wording.verdicts import alarm_clause, cut, failure_clause

MOST_BLOCKS = 1000
"""Most blocks proposed for a study with a fixed number of blocks (design.blocks)."""
MOST_LISTED = 3
"""Comparisons that the answer names; the table has all of them."""
SIGNS: dict[Outcome, str] = {"passed": "✅", "worse": "❌", "failed": "❌", "undecided": "❔"}
TAGS = {"worse": "failure", "failed": "failure", "undecided": "error"}
"""Of JUnit."""


def analyse(study: Examined) -> GateRecord | None:
    """The decision; None without thresholds."""
    if not study.thresholds:
        return None
    runs = study.runs if study.due else study.every_run
    measured = ordered({name for run in runs for values in run.values.values() for name in values})
    comparisons = tuple(one.model_copy(update={"reason": reason(one, measured)}) for one in _comparisons(study, runs))
    outcome = overall(comparisons)
    next_step, needed_s = _needed(study, comparisons) if outcome == "undecided" else ("", None)
    return GateRecord(
        outcome=outcome,
        comparisons=comparisons,
        obstacle=_obstacle(study),
        next_step=next_step,
        needed_s=needed_s,
        late=tuple(study.thresholds) != study.experiment.thresholds,
    )


def _comparisons(study: Examined, runs: Sequence[RunSummary]) -> Iterator[GateComparison]:
    """Every comparison that the thresholds mean, in their order; undecided where nothing was measured, and not passed
    where settings are switched whose effect may last longer than a slice: it is in the control's slices, too.
    """
    experiment, plan = study.experiment, study.plan
    assert plan is not None
    bounds, meant = [], []
    of_statements: list[GateComparison] = []
    for one in study.thresholds:
        steps = tuple(step.id for step in experiment.resolved_steps if one.holds_at(step))
        for control, every_arm in experiment.contrasts().items():
            arms = tuple(arm for arm in every_arm if not one.arms or arm in one.arms)
            if one.metric == SLOWEST_STATEMENT:
                record = study.found.get("statements")
                of_statements += [_slowest(study, record, one, step, arm, control) for step in steps for arm in arms]
                continue
            bounds.append(Bound(contrast_family(experiment, runs, one.metric, control, every_arm, True), one.ratio,
                                arms, steps))  # fmt: skip
            meant += [(one.metric, step, arm, control, one.ratio) for step in steps for arm in arms]
    judged = [one for one in study.families if one.primary]
    alpha, rate = study.alpha if study.due else None, experiment.verdict.error_rate
    answers = judge(bounds, alpha, alarm_of(study.effects), plan.schedule, rate, judged)
    found = {(*one.contrast, one.limit): one for one in answers}
    plain = {
        one.contrast: one.unadjusted[0]
        for one in study.effects
        if one.unadjusted is not None and one.unadjusted[0] != one.ratio
    }
    lasts = plan.design == "switchback" and lasting_names(experiment)
    for key in dict.fromkeys(meant):
        metric, step, arm, control, limit = key
        made = found.get(key) or GateComparison(
            metric=metric, step=step, arm=arm, control=control, limit=limit, outcome="undecided", n=0, why="unmeasured"
        )
        own = {"outcome": "undecided", "why": "lasts"} if lasts and made.outcome == "passed" else {}
        yield made.model_copy(update={"plain": made.ratio and plain.get(key[:4]), **own})
    yield from of_statements


def _slowest(
    study: Examined, record: StatementsRecord | None, one: ThresholdSpec, step: str, arm: str, control: str
) -> GateComparison:
    """All statements of an arm against one limit, by intervals that hold for all of them together.

    A statement is within it by response time or by CPU time. Under an alarm only failures and other rows are outcomes.
    """
    of = next((own for own in record.arms if (own.arm, own.control) == (arm, control)), None) if record else None
    made = partial(
        GateComparison, metric=SLOWEST_STATEMENT, step=step, arm=arm, control=control, limit=one.ratio,
        n=of.blocks if of else 0,
    )  # fmt: skip
    effects = [effect for effect in study.effects if (effect.step, effect.arm, effect.control) == (step, arm, control)]
    if failure := next((effect.details.failure for effect in effects if effect.details.failure), None):
        return made(outcome="failed" if failure.who == "arm" else "undecided", why="failure", failure=failure)
    if of is None:
        return made(outcome="undecided", why="unmeasured")
    does: tuple[tuple[StatementVerdict, str], ...] = (("fails", "fails"), ("other_rows", "returns other rows"))
    for verdict, words in does:
        if broken := of.having(verdict):
            first, count = broken[0], agreed(f"{len(broken)} statements")
            return made(outcome="failed", reason=f"{arm} {words} in {count}, e.g. {first.label} ({first.why})")
    if alarm := alarm_of(study.effects):
        return made(outcome="undecided", why="alarm", alarm=alarm)
    times = [
        (statement, [each for each in (statement.service, statement.cpu) if each is not None])
        for statement in of.statements
        if statement.verdict != "not_compared"
    ]
    judged = [(statement, each) for statement, both in times for each in both if each.ci_high is not None]
    beyond = [pair for pair in judged if (pair[1].ci_low or 0.0) > one.ratio]
    within = [pair for pair in judged if (pair[1].ci_high or 0.0) <= one.ratio]
    decided = {id(statement) for statement, _ in within}
    open_ = [statement for statement, _ in times if id(statement) not in decided]
    of_open = [pair for pair in judged if id(pair[0]) not in decided]
    if not (study.due and times):
        return made(outcome="undecided", why="no look")
    worst, interval = max(beyond or of_open or within, key=lambda pair: pair[1].ratio, default=(None, None))
    found = partial(made, ratio=interval.ratio, low=interval.ci_low, high=interval.ci_high) if interval else made
    if beyond and worst:
        return found(outcome="worse", reason=worst.label)
    if open_:
        may = agreed(f"{len(open_)} of {len(times)} statements may be beyond it")
        return found(outcome="undecided", why="open", reason=may)
    if of.blocks < FEWEST_BLOCKS:
        return found(outcome="undecided", why="few blocks", blocks_needed=FEWEST_BLOCKS)
    return found(outcome="passed")


def _needed(study: Examined, comparisons: Sequence[GateComparison]) -> tuple[str, float | None]:
    """What a decision needs, as a sentence and in seconds; empty and None where that is not known.

    One worse comparison decides the gate; it passes only if all comparisons pass. More blocks of the study are enough
    up to its last look; else it takes a new one with a fixed number of blocks.
    """
    if study.interrupted:
        return f"To continue: mydyno resume {study.path.name}", None
    assert study.plan is not None
    looks, length = study.plan.schedule, block_duration_s(study.every_record)
    done = len({record.block for record in study.every_record})
    open_ = [one for one in comparisons if one.outcome == "undecided"]
    next_look = looks.next_after(done) if looks is not None else None
    by_estimate = next_look is None or any(one.n for one in open_ if one.ratio is not None)
    needed = _blocks_needed(open_) if by_estimate else next_look
    if needed is None or length is None:
        return "", None
    resumes = looks is not None and needed <= looks.last
    time_s = (max(1, needed - done) if resumes else needed) * length
    if not resumes and (needed > MOST_BLOCKS or time_s > MOST_S):
        return agreed(
            f"The effect is too close to the limit, or this host too noisy: a decision takes more than {MOST_BLOCKS} "
            "blocks or a week. Use a quieter host, or another limit."
        ), None
    begin = "If the effects are as estimated, a decision takes about" if by_estimate else "A decision takes about"
    return f"{begin} {further(study.path.name, needed, time_s, resumes)}", time_s


def _blocks_needed(open_: Sequence[GateComparison]) -> int | None:
    worse = [one.blocks_needed for one in open_ if one.ratio is not None and _is_beyond(one.ratio, one.limit)]
    known_worse = [needed for needed in worse if needed is not None]
    if known_worse:
        return min(known_worse)
    known = [one.blocks_needed for one in open_ if one.blocks_needed is not None]
    return max(known) if known and len(known) == len(open_) else None


def _is_beyond(ratio: float, limit: float) -> bool:
    """Whether the ratio itself, whatever its noise, is beyond the limit: below 1 where more is better."""
    return ratio < limit if limit < 1.0 else ratio > limit


UNANSWERED = {
    "": "",
    "no look": "no interim analysis has been reached yet",
    "open": "the interval contains the limit",
    "lasts": (
        "an effect that lasts longer than a slice reaches the other arms too: decide with design.kind = "
        '"interleaved" or "blocks"'
    ),
    "unmeasured": "was not measured at this load level",
}


def reason(one: GateComparison, measured: Sequence[str] = ()) -> str:
    """Why a comparison is undecided, or what failed; empty if it passed or is worse."""
    if one.reason:
        return one.reason
    if one.outcome == "undecided" and measured and one.metric not in (*measured, SLOWEST_STATEMENT):
        having = [name for name in measured if (source := metric_source(name)) and source.better != "none"]
        return f"was not measured; measured: {', '.join(having)}"
    lost = sum(one.lost.values())
    match one.why:
        case "failure":
            return failure_clause(one.failure, one.arm, one.control)
        case "alarm":
            return alarm_clause(one.alarm)
        case "no block":
            return f"no valid block: {_lost(one) or 'nothing was measured'}"
        case "lost":
            return agreed(f"{lost} of {blocks(lost + one.n)} are not used: {_lost(one)}")
        case "no copy":
            return f"the second copy of {one.control} has no valid run: the difference between equal servers is unknown"
        case "few blocks":
            return agreed(f"only {one.n} of the {FEWEST_BLOCKS} blocks required")
    return UNANSWERED[one.why]


def _lost(one: GateComparison) -> str:
    return ", ".join(f"{why} ({blocks(count)})" for why, count in sorted(one.lost.items()))


def _obstacle(study: Examined) -> str:
    assert study.plan is not None
    done, looks = len({record.block for record in study.every_record}), study.plan.schedule
    if study.interrupted:
        return agreed(f"the study is interrupted: {done} of {len(study.plan.blocks)} blocks are finished")
    if not any(run.valid for run in study.every_record):
        why = next((reason.sentence for run in study.every_record for reason in run.reasons[:1]), "")
        return f"no run of the study is valid{': ' + cut(why) if why else ''}"
    if looks is not None and not study.due:
        return agreed(f"effects are examined from {looks.first} blocks on, and the study has {blocks(done)}")
    if not study.due and done < len(study.plan.blocks):
        return agreed(f"the study is not finished: {done} of {len(study.plan.blocks)} blocks are")
    return ""


def decides(summary: Summary) -> list[str]:
    """The decision in one or two sentences."""
    return [f"{summary.gate.outcome.capitalize()}: {_answer(summary.gate)}"] if summary.gate else []


def _answer(gate: GateRecord) -> str:
    count, open_ = len(gate.comparisons), gate.having("undecided")
    if gate.outcome == "passed":
        if count == 2:
            return "Both comparisons are within their limits."
        return (
            "The comparison is within its limit."
            if count == 1
            else agreed(f"All {count} comparisons are within their limits.")
        )
    if gate.outcome == "worse":
        failed = {one.arm: f"{one.reason}; {one.control} did not." for one in gate.having("failed")}
        undecided = _undecided(len(open_), count, "") if open_ else ""
        return " ".join(filter(None, (_worse(gate.having("worse"), count), *failed.values(), undecided)))
    if gate.obstacle and not _is_examined(gate):
        return f"{gate.obstacle[:1].upper()}{gate.obstacle[1:]}."
    reasons = list(dict.fromkeys(one.reason for one in open_))
    why = ": " + reasons[0] if len(reasons) == 1 else ""
    if count == 1:
        return f"The comparison is undecided{why}."
    return _undecided(len(open_), count, why)


def _is_examined(gate: GateRecord) -> bool:
    return any(one.ratio is not None for one in gate.comparisons)


def _worse(worse: Sequence[GateComparison], count: int) -> str:
    if not worse:
        return ""
    named = [
        f"{metric_name(one.metric)} of {one.arm} at {one.step} ({effect_text(one.ratio)}, limit {limit_text(one.limit)}"
        + (f": {one.reason})" if one.reason else ")")
        for one in worse[:MOST_LISTED]
    ]
    more = [f"{len(worse) - MOST_LISTED} more"] if len(worse) > MOST_LISTED else []
    which = listing(named + more)
    if count == 1:
        return f"The comparison exceeds its limit: {which}."
    exceed = "exceeds its limit" if len(worse) == 1 else "exceed their limits"
    return agreed(f"{len(worse)} of {count} comparisons {exceed}: {which}.")


def _undecided(open_: int, count: int, why: str) -> str:
    return agreed(f"{open_} of {count} comparisons {'is' if open_ == 1 else 'are'} undecided{why}.")


def part(result: StudyResult) -> Part | None:
    """The decision and every comparison; None without thresholds."""
    gate = result.summary.gate
    if gate is None:
        return None
    rows: list[list[str | Cell]] = []
    plain = ("plain",) if shows_plain((one.ratio, one.plain) for one in gate.comparisons) else ()
    several = len({one.control for one in gate.comparisons}) > 1
    for step in dict.fromkeys(one.step for one in gate.comparisons):
        rows.append([step])
        rows += [_row(one, several, bool(plain)) for one in gate.comparisons if one.step == step]
    head = ("metric", "arm", "limit", "effect", *plain, "bounds", "result")
    return Part(
        id="gate",
        heading=f"Limits: {gate.outcome}",
        short="Limits",
        lead=[*filter(None, (_answer(gate), gate.next_step, _builds(result)))],
        body=[
            Table("Limits of the gate", head, rows), Listed(_reasons(gate)), *map(Note, _notes(result, gate, plain)),
        ],
    )  # fmt: skip


def _row(one: GateComparison, several: bool, is_adjusted: bool) -> list[str | Cell]:
    return [
        metric_name(one.metric),
        f"{one.arm} against {one.control}" if several else one.arm,
        Cell(limit_text(one.limit), "num"),
        Cell(effect_text(one.ratio) or "–", "num"),
        *([Cell(effect_text(one.plain) or "–", "num")] if is_adjusted else []),
        Cell(bounds_text(one.low, one.high) or "–", "num"),
        Cell(one.outcome, f"strong {one.outcome}", sign=SIGNS[one.outcome]),
    ]


def _reasons(gate: GateRecord) -> list[str]:
    """Reasons with the comparisons that they are of; without those that are in the answer."""
    found: dict[str, list[str]] = {}
    for one in gate.comparisons:
        is_said = (gate.obstacle and not _is_examined(gate)) or one.reason in _answer(gate)
        if one.reason and not is_said:
            found.setdefault(one.reason, []).append(f"{metric_name(one.metric)} of {one.arm} at {one.step}")
    return [f"{', '.join(where)}: {why}." for why, where in found.items()]


def _notes(result: StudyResult, gate: GateRecord, plain: Sequence[str]) -> Iterator[str]:
    """How the answer was reached, in sentences: tests, error rate, and what weakens it."""
    summary, rate = result.summary, result.study.experiment.verdict.error_rate
    at = ""
    if summary.look is not None:
        at = agreed(
            f" at the interim analysis after {summary.look} blocks (error rate of all analyses together: "
            f"{rate * 100:.3g} %)"
        )
    if any(one.ratio is not None and one.metric != SLOWEST_STATEMENT for one in gate.comparisons):
        yield (
            f"One-sided tests of each limit at {summary.alpha * 100:.3g} %{at}; the bounds are one-sided and not "
            f"adjusted. The probability that a study wrongly passes is at most {rate * 100:.3g} %; so is the "
            "probability that it is wrongly called worse."
        )
    if any(one.ratio is not None and one.metric == SLOWEST_STATEMENT for one in gate.comparisons):
        yield (
            "Of statements, the bounds are two-sided and hold for all statements and arms together. A statement is "
            "within the limit by response time or by CPU time."
        )
    if plain:
        yield "Plain effects are without the adjustment for the host's speed."
    elif any(one.plain for one in gate.comparisons):
        yield "Without the adjustment for the host's speed the effects are the same."
    if gate.obstacle and (gate.outcome != "undecided" or _is_examined(gate)):
        yield f"{gate.obstacle[:1].upper()}{gate.obstacle[1:]}."
    if gate.late:
        yield "Thresholds were set on the command line; the study did not declare them before its first run."


def _builds(result: StudyResult) -> str:
    """Each arm's commit, where arms are built from source: "base: d9e1d3b3763d (Begin)"."""
    found: dict[str, str] = {}
    for (arm, _), facts in result.builds.items():
        subject = f" ({facts['subject']})" if facts["subject"] else ""
        found.setdefault(arm, f"{str(facts['commit']).removeprefix('tree-')[:12]}{subject}")
    return ", ".join(f"{arm}: {commit}" for arm, commit in sorted(found.items()))


def _scope(result: StudyResult) -> str:
    return scope_line(result.summary, result.study, tuple(result.records.values()), with_tests=False)


def document(result: StudyResult) -> Document:
    """All of it."""
    gate, decided = _of(result), part(result)
    assert decided is not None
    scope = [Note(_scope(result)), Note(f"Study {result.study.study}.")]
    return Document(
        title=f"{result.study.experiment.name}: {gate.outcome}",
        over="gate",
        below=result.study.experiment.question,
        parts=[decided, Part(id="scope", heading="Scope", body=scope)],
        sign=SIGNS[gate.outcome],
        outcome=gate.outcome,
    )


def _of(result: StudyResult) -> GateRecord:
    assert result.summary.gate is not None
    return result.summary.gate


_NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: StudyResult) -> str:
    """A test case for each comparison.

    Worse and failed are failures. Undecided is an error, because readers of the format count skipped tests as passed.
    """
    gate, study, records = _of(result), result.study, result.records.values()
    tags = [TAGS.get(one.outcome) for one in gate.comparisons]
    began_ns = min((one.started_unix_ns for one in records), default=0)
    duration_s = (max((one.ended_unix_ns for one in records), default=0) - began_ns) / 1e9
    counts = {"tests": str(len(tags)), **{f"{tag}s": str(tags.count(tag)) for tag in ("failure", "error")}}
    time = {"time": f"{duration_s:.3f}"}
    root = ET.Element("testsuites", {"name": "mydyno gate", **counts, **time})
    name = study.experiment.name
    suite = ET.SubElement(root, "testsuite", {"name": _text(name), **counts, "skipped": "0", **time})
    properties = ET.SubElement(suite, "properties")
    facts = {"study": study.study, "outcome": gate.outcome, "builds": _builds(result), "scope": _scope(result)}
    for fact, value in facts.items():
        if value or fact != "builds":
            ET.SubElement(properties, "property", {"name": fact, "value": _text(value)})
    for one, tag in zip(gate.comparisons, tags, strict=True):
        case = ET.SubElement(suite, "testcase", {
            "classname": _text(f"{name}.{one.step}"),
            "name": _text(f"{one.metric}: {one.arm} no worse than {limit_text(one.limit)} against {one.control}"),
            "time": "0",
        })  # fmt: skip
        effect, plain, bounds = effect_text(one.ratio), effect_text(one.plain), bounds_text(one.low, one.high)
        words = ", ".join(filter(None, (
            effect and f"effect {effect}", plain and f"plain effect {plain}", bounds and f"bounds {bounds}",
            f"limit {limit_text(one.limit)}",
            one.reason or (gate.obstacle if one.outcome == "undecided" else ""),
        )))  # fmt: skip
        if tag is None:
            ET.SubElement(case, "system-out").text = _text(words)
        else:
            found = ET.SubElement(case, tag, {"type": one.outcome, "message": _text(words)})
            found.text = _text(" ".join(filter(None, (_answer(gate), gate.next_step))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _text(text: str) -> str:
    """Without characters that XML 1.0 cannot hold, which an error log may have."""
    return _NOT_XML.sub("\ufffd", text)


def bencher(result: StudyResult) -> str:
    """For `bencher run --adapter json --file FILE`. Empty where nothing may be examined.

    A benchmark is an experiment's arm at a step, in comparison with its control. For each metric it has two measures:
    METRIC, the arm's own value, the geometric mean of its blocks, which depends on the host; and METRIC-ratio, the
    arm's value relative to its control's with the one-sided bounds of the gate, which does not. Comparisons without a
    number are left out: the format has none without.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one in _of(result).comparisons:
        if one.ratio is None or one.arm_value is None:
            continue
        benchmark = f"{result.study.experiment.name}: {one.arm} against {one.control}, {one.step}"
        measures = found.setdefault(benchmark, {})
        measures[one.metric] = {"value": one.arm_value}
        ratio = {"value": one.ratio}
        if one.low is not None and one.high is not None:
            ratio |= {"lower_value": one.low, "upper_value": one.high}
        measures[f"{one.metric}-ratio"] = ratio
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


ANALYSIS = Analysis(chapter="decision", part=part, stored="gate", analyse=analyse, decides=decides)
