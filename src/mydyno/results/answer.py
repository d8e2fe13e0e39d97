"""The answer in one to three short sentences, its scope, and what would improve it.

Pure: made from the summary's effects with their verdicts. A sentence claims what a verdict says and nothing beyond it.
The sentences in full, one for each contrast, are in Summary.sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.model.factors import factors_of
from mydyno.model.metrics import phrase_of
from mydyno.model.records import RunRecord, StudyRecord
from mydyno.model.summary import EffectRecord, Summary
from mydyno.results.clauses import Clauses
from mydyno.results.host_words import hosts_answer, on_these_hosts, these_hosts
from mydyno.results.plain_words import MOST_NAMES, blocks, cut, listing, plus_minus
from mydyno.results.precision import (
    FIRST_LOOK,
    block_duration_s,
    blocks_for,
    cost_metric,
    duration_option,
    duration_words,
    failed_blocks,
    failure_of,
    finished_blocks,
    is_sequential,
    precision,
    steal_share,
)
from mydyno.results.scope_line import scope_line
from mydyno.results.sharpen import sharpen_lines

MUCH_STEAL = 0.5
"""From this share on the answer begins with what the host gives."""
ALARM_WORDS = "although they are identical"
MOST_SENTENCES = 3
TARGET = 0.02


@dataclass(frozen=True, slots=True)
class Answer:
    """The beginning of a report."""

    answer: tuple[str, ...]
    scope: str
    sharpen: tuple[str, ...]


def answer_study(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> Answer:
    """The answer of a study from its summary; `records` are its finished runs, for times and server versions."""
    return Answer(
        answer_sentences(summary, study, records),
        scope_line(summary, study, records),
        sharpen_lines(summary, study, records),
    )


def with_answer(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> Summary:
    """The summary with answer, scope and sharpen filled in."""
    found = answer_study(summary, study, records)
    return summary.model_copy(update={"answer": found.answer, "scope": found.scope, "sharpen": found.sharpen})


def answer_sentences(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> tuple[str, ...]:
    """One to three sentences, the most important ones where there are more."""
    nothing = _nothing(summary, study, records)
    failures = _failures(summary)
    alarm = alarm_of(summary.effects)
    if alarm:
        found = [f"The control differs from its own copy, so no conclusion is drawn: {_short_alarm(alarm)}."]
        found = on_these_hosts(summary, found)
        return tuple([*found, *failures][:MOST_SENTENCES])
    lead = _host_first(summary, study, records)
    if nothing:
        return tuple([*lead, nothing, *failures][:MOST_SENTENCES])
    writer = Clauses(summary, factors_of(study.experiment.arms), study.experiment.verdict.latency_margin)
    decided, open_ = writer.decided(), writer.undecided(bool(lead))
    of_hosts = [sentence] if (sentence := hosts_answer(summary)) else []
    if len(lead) + len(failures) + len(of_hosts) >= MOST_SENTENCES:
        of_hosts = []
    room = max(1, MOST_SENTENCES - len(lead) - len(failures) - len(of_hosts))
    said = [*decided[: max(1, room - len(open_[:1]))], *open_][:room]
    return tuple([*lead, *on_these_hosts(summary, said), *of_hosts, *failures][:MOST_SENTENCES])


def alarm_of(effects: Sequence[EffectRecord]) -> str:
    """The A/A alarm in words; empty if there is none."""
    for effect in effects:
        if effect.verdict == "not_measurable":
            if effect.details.alarm:
                return effect.details.alarm
            if ALARM_WORDS in effect.sentence:
                return effect.sentence.rpartition(";")[2].strip().rstrip(".")
    return ""


def _short_alarm(alarm: str) -> str:
    """The alarm without what the surrounding sentence contains."""
    return alarm.partition(f" {ALARM_WORDS}")[0]


def _nothing(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> str:
    """Why there is no answer at all; empty if there are contrasts with verdicts to speak of."""
    if len(study.experiment.arms) == 1:
        return (
            f"{summary.control} is the only arm: this study shows the noise of {_host(summary)} and compares nothing."
        )
    if not summary.runs:
        return "No answer: no run has finished."
    if not any(run.valid for run in summary.runs) and not any(run.failures for run in summary.runs):
        reasons = Counter(reason.sentence for run in summary.runs for reason in run.reasons[:1])
        why = f" ({cut(reasons.most_common(1)[0][0])})" if reasons else ""
        return f"No answer: no run is valid{why}."
    done = finished_blocks(summary)
    if is_sequential(summary, study.experiment) and summary.look is None:
        length = block_duration_s(records)
        time = duration_option((FIRST_LOOK - done) * length) if length else "10m"
        return (
            f"No answer yet: {done} of {FIRST_LOOK} blocks; continue with: mydyno resume {summary.study} --time {time}."
        )
    if not any(effect.verdict for effect in summary.effects):
        return "No answer: the study has no evaluated effect."
    return ""


def _host_first(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> list[str]:
    """What can be measured on a host whose hypervisor takes half of the CPU time or more."""
    steal = steal_share(summary)
    if steal is None or steal < MUCH_STEAL:
        return []
    shows, needed = [], 0
    for metric in filter(None, (summary.primary, cost_metric(summary))):
        effects = [effect for effect in summary.effects if effect.metric == metric and effect.verdict]
        width = precision(effects)
        if width is not None:
            shows.append(f"{plus_minus(width)} of {phrase_of(metric).short_noun}")
            looks, measured = is_sequential(summary, study.experiment), summary.look or finished_blocks(summary)
            needed = max(needed, blocks_for(TARGET, effects, measured, summary.alpha, looks) or 0)
    whose = "this host's" if summary.host_groups is None else "these hosts'"
    told = f"The hypervisor took {steal:.0%} of {whose} CPU time".replace("%", " %")
    if not shows:
        return [f"{told}."]
    length = block_duration_s(records)
    more = needed - finished_blocks(summary)
    time = (
        f"; {plus_minus(TARGET)} would take about {duration_words(more * length)} more" if length and more > 0 else ""
    )
    return [f"{told}: it can show differences from about {listing(shows)}{time}."]


def _host(summary: Summary) -> str:
    return "this host" if summary.host_groups is None else these_hosts(summary.host_groups)


def _failures(summary: Summary) -> list[str]:
    """Every arm that failed, in one sentence: in how many blocks, and why."""
    told = []
    named: set[str] = set()
    for arm in dict.fromkeys((summary.control, *summary.arms)):
        failed = failed_blocks(summary.runs, arm)
        if failed:
            of = len({run.block for run in summary.runs if run.arm == arm})
            reason = Counter(failed.values()).most_common(1)[0][0]
            name = f"The control {arm}" if arm == summary.control else arm
            told.append(f"{name} failed in {len(failed)} of {blocks(of)} ({cut(reason)})")
            named.add(arm)
    for effect in summary.effects:
        failure = failure_of(summary, effect)
        if failure and not named & {effect.arm, effect.control}:
            named.add(effect.arm)
            told.append(failure.replace("the arm", effect.arm, 1).replace("the control", effect.control, 1))
    if len(told) > MOST_NAMES:
        told = [*told[: MOST_NAMES - 1], f"{len(told) - MOST_NAMES + 1} more arms failed"]
    return [f"{'; '.join(told)}."] if told else []
