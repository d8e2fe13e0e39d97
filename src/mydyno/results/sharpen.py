"""What would improve a study's answer: more time, a quieter host, more starts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from mydyno.model.metrics import phrase_of
from mydyno.model.records import RunRecord, StudyRecord
from mydyno.model.summary import InterleavingRecord, Summary
from mydyno.results.host_words import hosts_sharpen
from mydyno.results.plain_words import blocks, listing, plus_minus
from mydyno.results.precision import (
    DAY,
    MOST_S,
    block_duration_s,
    blocks_for,
    cost_metric,
    duration_option,
    duration_words,
    finished_blocks,
    is_sequential,
    planned_blocks,
    precision,
    steal_share,
)
from mydyno.stats.looks import LOOKS, next_look

NOTICED_STEAL = 0.03
STARTS_DOMINATE = 1.5
"""Above this ratio of the spread between starts to what the slices explain, more starts improve the precision."""


def sharpen_lines(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> tuple[str, ...]:
    """Sentences, the most useful first; empty if nothing was measured."""
    if not summary.runs:
        return ()
    judged = [effect for effect in summary.effects if effect.verdict]
    open_ = [effect for effect in judged if effect.verdict == "inconclusive"]
    lines = []
    sequential = is_sequential(summary, study.experiment)
    if open_:
        lines += _time(summary, records, sequential)
    elif judged and all(effect.verdict in ("higher", "lower", "equivalent") for effect in judged):
        lines.append("Every comparison is decided; more blocks would only make the intervals narrower.")
    lines += hosts_sharpen(summary)
    if sequential and (open_ or summary.look is None):
        lines += _look(summary, records)
    steal = steal_share(summary)
    if steal is not None and steal >= NOTICED_STEAL:
        lines.append(_steal(summary, steal))
    if summary.interleaving is not None:
        lines += _starts(summary, summary.interleaving)
    invalid = [run for run in summary.runs if not run.valid and not run.failures]
    if invalid:
        causes = Counter(run.reasons[0].label for run in invalid if run.reasons)
        why = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common(3))
        lines.append(
            f"{len(invalid)} of {len(summary.runs)} runs are not valid and not used{': ' + why if why else ''}."
        )
    return tuple(lines)


def _time(summary: Summary, records: Sequence[RunRecord], sequential: bool) -> list[str]:
    """For each metric that the answer speaks of: the precision of what is open, and the time for the margin."""
    lines = []
    done, length = finished_blocks(summary), block_duration_s(records)
    here = "this host: use a quieter one" if summary.host_groups is None else "these hosts: use quieter ones"
    measured = summary.look or done
    for metric in filter(None, (summary.primary, cost_metric(summary))):
        effects = [one for one in summary.effects if one.metric == metric and one.verdict == "inconclusive"]
        width = precision(effects)
        noun = phrase_of(metric).short_noun
        target = summary.margin
        needed = planned_blocks(effects) or blocks_for(target, effects, measured, summary.alpha, sequential)
        if width is None or needed is None or needed <= done:
            continue
        now = f"{noun[:1].upper()}{noun[1:]}: {plus_minus(width)} now; {plus_minus(target)} needs about "
        if length is None:
            lines.append(f"{now}{blocks(needed)}.")
        elif (needed - done) * length > MOST_S:
            lines.append(f"{now}{duration_words((needed - done) * length)} on {here}.")
        elif sequential:
            more = (needed - done) * length
            command = f" (mydyno resume {summary.study} --time {duration_option(more)})" if more < DAY else ""
            lines.append(f"{now}{duration_words(more)} more{command}.")
        else:
            lines.append(
                f"{now}{blocks(needed)}, {duration_words(needed * length)}, in a new study: --blocks {needed}."
            )
    return lines


def _look(summary: Summary, records: Sequence[RunRecord]) -> list[str]:
    """The next look of a study that is not decided."""
    done = finished_blocks(summary)
    look, length = next_look(max(done, summary.look or 0)), block_duration_s(records)
    if look is None:
        return []
    more = f", about {duration_words((look - done) * length)}" if length else ""
    looks = listing(list(map(str, LOOKS)))
    return [f"Verdicts are given at {looks} blocks: the next at {look}, {blocks(look - done)} more{more}."]


def _steal(summary: Summary, steal: float) -> str:
    worst = summary.interleaving.steal_max if summary.interleaving else None
    most = f" and up to {worst * 100:.0f} % in a slice" if worst is not None and worst > steal else ""
    return f"The hypervisor took {steal * 100:.0f} % of the CPU time{most}: with less steal, intervals are narrower."


def _starts(summary: Summary, interleaving: InterleavingRecord) -> list[str]:
    """Whether differences between starts or between slices limit the precision of the primary metric."""
    done, steps = finished_blocks(summary), max(1, len(summary.steps))
    cycles = interleaving.cycles / (max(1, done) * steps)
    ratios = []
    for step, between in interleaving.sd_between.items():
        within = interleaving.sd_within.get(step, {}).get(summary.primary)
        if within and cycles >= 1 and summary.primary in between:
            ratios.append(between[summary.primary] / (within / math.sqrt(cycles)))
    if ratios and min(ratios) > STARTS_DOMINATE:
        return ["Server starts differ more than slices of one start do: more blocks help, longer blocks do not."]
    return []
