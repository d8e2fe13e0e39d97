"""The answer in short sentences, its scope, and what would improve it.

Pure: made from the summary's effects with their verdicts. A sentence claims what a verdict says and nothing beyond it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from mydyno.language import agreed, listing
from mydyno.model.definition.factors import factors_of
from mydyno.model.definition.special_steps import MEMORY
from mydyno.model.stored.reasons import NOTHING_ENDED, NOTHING_SERVED
from mydyno.model.stored.records import RunRecord, StudyRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.precision import (
    MOST_PROMISED,
    alarm_of,
    answered_metrics,
    block_duration_s,
    detectables,
    failed_blocks,
    failures_of,
    finished_blocks,
    half_widths,
    is_sequential,
    looks_of,
    outlook,
)
from mydyno.wording.advice import resume, sharpen_lines
from mydyno.wording.clauses import Clauses
from mydyno.wording.numbers import MOST_NAMES, blocks, duration_words, option_s, size
from mydyno.wording.scope_line import hosts_answer, memory_queries, on_these_hosts, scope_line, these_hosts
from mydyno.wording.stored_result import StoredResult
from mydyno.wording.verdicts import alarm_clause, causes, cut, failure_of, taken_of_cpus

MUCH_TAKEN = 0.5
"""From this share on, of hypervisor and other programs together, the answer begins with what the host gives."""
LONGER = 5
"""How much longer a slice should be of which no transaction ended."""
MOST_SENTENCES = 3
MOST_OF_QUESTION = 4
"""Most sentences on what is decided in one metric of the question, where arms have several controls."""
MOST_OF_FURTHER = 2
"""Most sentences on what is decided in a further metric of the question, where they have one."""


@dataclass(frozen=True)
class Answer:
    """The beginning of a report."""

    answer: tuple[str, ...]
    scope: str
    sharpen: tuple[str, ...]
    further: int = 0
    """How many of `answer`, the last ones, are on further metrics of the question."""


def answer_of(result: StoredResult) -> Answer:
    """The answer of a study in its folder."""
    found = answer_study(result.summary, result.study, tuple(result.records.values()))
    made, planned = len(result.runs), len(result.plan.runs)
    if made < planned and result.summary.state != "complete" and result.summary.due:
        rest = agreed(f"{made} of {planned} planned runs were made")
        line = f"{rest}; mydyno resume {result.summary.study} makes the rest."
        found = replace(found, sharpen=(line, *found.sharpen))
    if line := _too_few(result):
        found = replace(found, sharpen=(line, *found.sharpen))
    return found


def _too_few(result: StoredResult) -> str:
    """That a fixed number of blocks is too small for any difference; empty if it is not."""
    planned, contrasts = len(result.plan.blocks), sum(one.primary for one in result.summary.effects)
    if result.study.experiment.design.time is not None or not contrasts:
        return ""
    from mydyno.stats.power import minimum_blocks  # takes long to load

    fewest = minimum_blocks(contrasts)
    return f"{blocks(planned)} cannot show a difference: {fewest} are needed." if planned < fewest else ""


def answer_study(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> Answer:
    """The answer of a study from its summary; `records` are its finished runs, for times and server versions."""
    leading, further = answer_sentences(summary, study, lambda: block_duration_s(records))
    return Answer(
        (*leading, *further), scope_line(summary, study, records), sharpen_lines(summary, study, records), len(further)
    )


def answer_sentences(
    summary: Summary, study: StudyRecord, block_s: Callable[[], float | None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """One to three sentences after what is decided, the most important ones where there are more, or up to five where
    arms have several controls; and those on further metrics. `block_s` is block_duration_s() of the runs, which few
    answers need.
    """
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import added_of, always_of, decided_of, said_of

    nothing = _nothing(summary, study, block_s)
    failures = _failures(summary)
    alarm = alarm_of(summary.effects)
    if alarm:
        found = [f"Two equal servers differ, so no conclusion is drawn: {alarm_clause(alarm)}."]
        found = on_these_hosts(summary, found)
        return (*decided_of(summary), *always_of(summary), *found, *failures), ()
    lead = _host_first(summary, study, block_s)
    if nothing:
        alone = said_of(summary, summary.primary)[0] if len(study.experiment.arms) == 1 else []
        return (*decided_of(summary), *always_of(summary), *lead, *(alone or [nothing]), *failures), ()
    writer = Clauses(summary, factors_of(study.experiment.arms), study.experiment.verdict.latency_margin)
    further = [metric for metric in answered_metrics(summary) if metric in summary.also_primary]
    decided, open_ = writer.decided(without=further), writer.undecided(bool(lead))
    said = {metric: said_of(summary, metric) for metric in answered_metrics(summary)}
    own, is_all = said[summary.primary]
    if own:
        decided = [one for metric, (found, _) in said.items() if metric not in further for one in found]
    if is_all:
        open_ = []
    needed = min(len(writer.decided_on(summary.primary)), MOST_OF_QUESTION) if writer.several_controls else 1
    beside = [sentence for sentence in (hosts_answer(summary), *added_of(summary)) if sentence]
    beside = beside[: max(0, MOST_SENTENCES - 1 - len(lead) - len(failures))]
    room = max(1, MOST_SENTENCES - len(lead) - len(failures) - len(beside))
    if any(found for found, _ in said.values()):
        first = decided[:room]
    else:
        first = decided[: max(needed, room - len(open_[:1]))]
        room = max(room, len(first) + len(open_[:1]))
    rest = open_[: room - len(first)]
    spoken = [*on_these_hosts(summary, first), *lead, *rest] if first else [*lead, *on_these_hosts(summary, rest)]
    if failures and not first:  # then nothing is known but that
        spoken, failures = [*failures, *spoken], []
    most = MOST_OF_QUESTION if writer.several_controls else MOST_OF_FURTHER
    of_further = [
        sentence
        for metric in further
        for sentence in said[metric][0]
        or (
            *_after_queries(summary, metric, writer.decided_on(metric)[:most]),
            *writer.undecided(bool(lead), metric)[:1],
        )
    ]
    room = max(MOST_SENTENCES - len(failures), len(spoken))
    return (*decided_of(summary), *[*spoken, *beside][:room], *failures), tuple(of_further)


def _after_queries(summary: Summary, metric: str, sentences: Sequence[str]) -> list[str]:
    """Of memory, the first sentence begins with how much each server had served: the difference depends on it."""
    count = memory_queries(summary) if metric in MEMORY else ""
    if not (count and sentences):
        return list(sentences)
    first = agreed(f"After {count} queries of each server, {sentences[0]}")
    return [first, *sentences[1:]]


def _nothing(summary: Summary, study: StudyRecord, block_s: Callable[[], float | None]) -> str:
    """Why there is no answer at all; empty if there are contrasts with verdicts to speak of."""
    if not summary.runs:
        return "No answer: no run has finished."
    if not any(run.valid for run in summary.runs) and not any(run.failures for run in summary.runs):
        reasons = Counter(reason.sentence for run in summary.runs for reason in run.reasons[:1])
        if not reasons:
            return "No answer: no run is valid."
        return f"No answer: no run is valid ({cut(reasons.most_common(1)[0][0])})."
    done = finished_blocks(summary)
    if not summary.due and not is_sequential(summary, study.experiment):
        planned = study.experiment.design.blocks
        return f"No answer yet: {done} of {blocks(planned)}; continue with: mydyno resume {summary.study}."
    if not summary.due:
        length, first = block_s(), looks_of(summary).first
        command = resume(summary.study, (first - done) * length if length else 600.0)
        return agreed(f"No answer yet: {done} of {first} blocks; continue with: {command}.")
    if len(study.experiment.arms) == 1 and study.experiment.is_search:
        return (
            f"No capacity was found: the slices of {summary.control} met the objective at every load that was tried, "
            "or at none."
        )
    if len(study.experiment.arms) == 1:
        return (
            f"{summary.control} is the only arm: this study shows the noise of {_host(summary)} and compares nothing."
        )
    if not any(effect.verdict for effect in summary.effects) and not summary.screening:
        return "No answer: the study has no evaluated effect."
    return ""


def _host_first(summary: Summary, study: StudyRecord, block_s: Callable[[], float | None]) -> list[str]:
    """What can be measured on a host of whose CPU time hypervisor and other programs take half or more; empty where
    nothing was, which has another cause.
    """
    told = taken_of_cpus(summary, MUCH_TAKEN)
    if not told or all(effect.verdict == "not_measurable" for effect in summary.effects if effect.verdict):
        return []
    shows: list[str] = []
    times: list[float | None] = []
    sequential, length = is_sequential(summary, study.experiment), block_s()
    for metric in answered_metrics(summary):
        judged = [effect for effect in summary.effects if effect.metric == metric and effect.verdict]
        widths, able = half_widths(judged), detectables(judged)
        if able and widths and median(widths) <= MOST_PROMISED:
            noun = summary.phrase(metric).short_noun
            shows.append(f"{size(median(able))} in {noun}")
            found = outlook(summary, [one for one in judged if one.verdict == "inconclusive"], length, sequential)
            times += [found.half_s] if found else []
    if not shows:
        is_decided = any(effect.verdict in ("higher", "lower", "equivalent") for effect in summary.effects)
        return [f"{told}." if is_decided else f"{told}: the noise is too large for an answer."]
    known = [one for one in times if one is not None]
    time = ""
    if known and len(known) == len(times) and sequential:
        time = f"; an answer needs about {duration_words(option_s(max(known)))} more"
    return [f"{told}: a study such as this one finds differences of {listing(shows)} with 80 % power{time}."]


def _host(summary: Summary) -> str:
    return "this host" if summary.host_groups is None else these_hosts(summary.host_groups)


def _control(summary: Summary) -> str:
    """The control, or its copy if that alone failed."""
    copies = {run.copy_number for run in summary.runs if run.arm == summary.control and run.failures}
    return f"The control's copy {summary.control}′" if copies == {2} else f"The control {summary.control}"


def _failures(summary: Summary) -> list[str]:
    """Every arm that failed, in one sentence: in how many blocks, and why."""
    told = []
    named: set[str] = set()
    for arm in dict.fromkeys((summary.control, *summary.arms)):
        failed = failed_blocks(summary.runs, arm)
        if failed:
            of = len({run.block for run in summary.runs if run.arm == arm})
            reason = next(iter(causes(Counter(failed.values()))))
            name = _control(summary) if arm == summary.control else arm
            told.append(f"{name} failed in {len(failed)} of {blocks(of)} ({reason})")
            named.add(arm)
    for effect in summary.effects:
        failure = failure_of(summary, effect)
        if failure and not named & {effect.arm, effect.control}:
            named.add(effect.arm)
            told.append(failure)
    if len(told) > MOST_NAMES:
        told = [*told[: MOST_NAMES - 1], agreed(f"{len(told) - MOST_NAMES + 1} more arms failed")]
    return [f"{'; '.join(told)}.", *_longer_slices(summary)] if told else []


def _longer_slices(summary: Summary) -> list[str]:
    """What to do where no transaction ended within a slice."""
    why = {reason for run in summary.runs for reason in failures_of(run).values()}
    if not why & {NOTHING_SERVED, NOTHING_ENDED} or summary.interleaving is None:
        return []
    slice_s = summary.interleaving.slice_s
    return [
        f"No transaction ended within slices of {slice_s:g} s: use longer ones: "
        f"--set design.slice={LONGER * slice_s:g}s."
    ]
