"""What would improve a study's answer: more time, a quieter host, more starts; and how a command for it reads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from mydyno.language import agreed, listing
from mydyno.model.definition.plan import instances_of_each
from mydyno.model.stored.records import RunRecord, StudyRecord
from mydyno.model.stored.summary import EffectRecord, InterleavingRecord, RunSummary, Summary
from mydyno.results.precision import (
    UNPLANNED,
    Outlook,
    answered_metrics,
    block_duration_s,
    finished_blocks,
    half_widths,
    is_sequential,
    looks_of,
    outlook,
    steal_share,
    strangers_share,
)
from mydyno.results.values.doubts import doubts_of
from mydyno.wording.numbers import blocks, duration_option, duration_words, half_widths_text, option_s, size
from mydyno.wording.scope_line import hosts_sharpen
from mydyno.wording.verdicts import invalid_runs, may_last

NOTICED_STEAL = 0.03
NOTICED_STRANGERS = 0.05
FIRST_SHARE = 0.1
"""From this share of the CPU time on, what took it is the first line."""
STARTS_DOMINATE = 1.5
"""Above this ratio of the spread between starts to what the slices explain, more starts improve the precision."""
ODD_START = 4.0
"""A block is far from the others if its ratio is more than so many of their standard deviations from their mean."""
FEWEST_OTHERS = 4
SETTING_TREATMENTS = ("variables", "environment", "sysctl")
"""Treatments of which the server or the kernel may take another value than the one set."""


def sharpen_lines(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> tuple[str, ...]:
    """Sentences, the most useful first; empty if nothing was measured."""
    if not summary.runs:
        return ()
    judged = [effect for effect in summary.effects if effect.verdict]
    open_ = [effect for effect in judged if effect.verdict == "inconclusive"]
    lines = _doubts(records)
    sequential, instances = is_sequential(summary, study.experiment), instances_of_each(study.experiment)
    taken = _taken(summary)
    first = sum((steal_share(summary) or 0.0, strangers_share(summary) or 0.0)) >= FIRST_SHARE
    if open_:
        lines += [*(taken if first else ()), *_time(summary, records, sequential, instances)]
    lines += hosts_sharpen(summary)
    hopeless = open_ and all(one.obstacle for _, _, one in _outlooks(summary, records, sequential))
    if sequential and (open_ or summary.look is None) and not hopeless:
        lines += _look(summary, records)
    lines += [line for line in taken if line not in lines]
    lines += _odd_starts(summary, judged)
    if summary.interleaving is not None:
        started = study.experiment.server.dsn is None and summary.design != "switchback"
        lines += _starts(summary, summary.interleaving, started)
    lines += [invalid_runs(summary.runs), *_settings_not_taken(summary.runs), *_not_comparable(summary, study)]
    return tuple(filter(None, lines))


def _doubts(records: Sequence[RunRecord]) -> list[str]:
    """What each step's load did otherwise than it should, in how many runs, and what to do about it."""
    found: dict[tuple[str, str], list[str]] = {}
    for step in (one for record in records for one in record.steps):
        for rule, text in {doubt.rule: doubt.text for doubt in doubts_of(step.driver)}.items():
            found.setdefault((step.id, rule), []).append(text)
    return [
        agreed(f"{step} is in doubt in {len(texts)} of {len(records)} runs: {texts[0]}.")
        for (step, _), texts in found.items()
    ]


def _settings_not_taken(runs: Sequence[RunSummary]) -> list[str]:
    """What server or kernel made of settings that it rounded, clipped or ignored: a sentence per arm and setting."""
    sentences = (
        f"{run.arm} does not run with the settings that it declares: {one.text}."
        for run in runs
        for one in run.evidence
        if not (run.valid or one.holds) and one.treatment in SETTING_TREATMENTS
    )
    return list(dict.fromkeys(sentences))


def _not_comparable(summary: Summary, study: StudyRecord) -> list[str]:
    """That the experiment repeats a published study of which nothing can be compared: silence would hide it."""
    named, compared = study.experiment.published, summary.published or summary.conclusions
    judged = any(effect.verdict for effect in summary.effects)
    early = not summary.due
    if not (named and judged) or compared or early:
        return []
    return [f"No figure of {', '.join(named)} has an arm, a load and a metric of this study: none is compared."]


def _taken(summary: Summary) -> list[str]:
    """What hypervisor and other programs took of the CPU time, where that is worth a line."""
    lines = []
    steal, strangers = steal_share(summary), strangers_share(summary)
    if strangers is not None and strangers >= NOTICED_STRANGERS:
        lines.append(
            f"Other programs used {strangers * 100:.0f} % of the CPU time: without them, intervals are narrower."
        )
    if steal is not None and steal >= NOTICED_STEAL:
        lines.append(_steal(summary, steal))
    return lines


def _outlooks(
    summary: Summary, records: Sequence[RunRecord], sequential: bool
) -> Iterator[tuple[str, list[EffectRecord], Outlook]]:
    """(metric, its open contrasts, what decides them) of each metric that the answer speaks of."""
    length = block_duration_s(records)
    for metric in answered_metrics(summary):
        effects = [one for one in summary.effects if one.metric == metric and one.verdict == "inconclusive"]
        effects = [one for one in effects if not may_last(one)]
        found = outlook(summary, effects, length, sequential)
        if found is not None:
            yield metric, effects, found


def _time(summary: Summary, records: Sequence[RunRecord], sequential: bool, instances: int) -> list[str]:
    """For each metric: the precision of what is open, and the time that decides it."""
    lines = []
    done = finished_blocks(summary)
    for metric, effects, found in _outlooks(summary, records, sequential):
        noun = summary.phrase(metric).short_noun
        noun = f"{noun[:1].upper()}{noun[1:]}"
        if instances > 1:
            width = half_widths_text(half_widths(effects))
            lines.append(f"{noun}: {width} over {instances} instances of each; more instances narrow it.")
            continue
        if found.obstacle == "noise":
            lines.append(f"{noun}: too much noise to estimate the time that an answer needs: use a quieter host.")
            continue
        now = f"{noun}: {half_widths_text(half_widths(effects))} now; "
        if found.half is None:
            lines.append(now + _unreachable(summary, found, effects))
            continue
        more = found.half - done if sequential else found.half
        needs = blocks(more) if found.half_s is None else further(summary.study, more, found.half_s, sequential)
        if found.every == found.half:
            lines.append(f"{now}a verdict needs about {needs}.")
            continue
        rest = "more time does not decide all"
        if found.every is not None:
            more = found.every - done if sequential else found.every
            rest = f"all, about {blocks(more) if found.every_s is None else duration_words(found.every_s)}"
        verb = "needs" if found.decided == 1 else "need"
        some = agreed(f"{found.decided} of the {len(effects)} undecided comparisons {verb} about {needs}")
        lines.append(f"{now}{some}; {rest}.")
    return lines


def _unreachable(summary: Summary, found: Outlook, effects: Sequence[EffectRecord]) -> str:
    if found.obstacle != "looks":
        return "with this noise a decision takes more than a week: use a quieter host."
    some = [one for one in effects if one.details.blocks_needed and one.n + one.details.blocks_needed < UNPLANNED]
    more = agreed(f" more than {len(some)} of {len(effects)} comparisons") if some else ""
    last = blocks(looks_of(summary).last)
    return f"with this noise no interim analysis decides{more}, up to the last one at {last}: use a quieter host."


def further(study: str, count: int, time_s: float, resumes: bool) -> str:
    """The time that a study goes on for, or the blocks of a new one and their time, with the command or option."""
    if not resumes:
        return f"{blocks(count)}, {duration_words(time_s)}, in a new study: --blocks {count}"
    return f"{duration_words(option_s(time_s))} more ({resume(study, time_s)})"


def resume(study: str, time_s: float) -> str:
    """The command that goes on for so long."""
    return f"mydyno resume {study} --time {duration_option(time_s)}"


def _look(summary: Summary, records: Sequence[RunRecord]) -> list[str]:
    """The next look of an undecided study."""
    done = finished_blocks(summary)
    look, length = looks_of(summary).next_after(max(done, summary.look or 0)), block_duration_s(records)
    if look is None:
        return []
    time = f", about {duration_words((look - done) * length)}" if length else ""
    looks = listing(list(map(str, looks_of(summary).rates)))
    return [agreed(f"Verdicts are given at {looks} blocks: the next at {look}, {blocks(look - done)} more{time}.")]


def _steal(summary: Summary, steal: float) -> str:
    worst = summary.interleaving.steal_max if summary.interleaving else None
    most = f" and up to {worst * 100:.0f} % in a slice" if worst is not None and worst > steal else ""
    return f"The hypervisor took {steal * 100:.0f} % of the CPU time{most}: with less steal, intervals are narrower."


def _starts(summary: Summary, interleaving: InterleavingRecord, started: bool) -> list[str]:
    """Whether differences between starts or between slices limit the precision of the primary metric.

    `started`: whether each lane of a block has a server of its own.
    """
    done, steps = finished_blocks(summary), max(1, len(summary.steps))
    cycles = interleaving.cycles / (max(1, done) * steps)
    ratios = []
    for step, between in interleaving.sd_between.items():
        within = interleaving.sd_within.get(step, {}).get(summary.primary)
        if within and cycles >= 1 and summary.primary in between:
            ratios.append(between[summary.primary] / (within / math.sqrt(cycles)))
    if ratios and min(ratios) > STARTS_DOMINATE:
        what, one = ("Server starts", "start") if started else ("Blocks", "block")
        return [f"{what} differ more than slices of one {one} do: more blocks help, longer blocks do not."]
    return []


def _odd_starts(summary: Summary, judged: Sequence[EffectRecord]) -> list[str]:
    """The block that widens an arm's own interval: the first such metric of each arm."""
    lines: dict[str, str] = {}
    for one in judged:
        found = _odd_block(one.details.log_ratios or {}) if one.details.method == "pairs" else None
        if found is not None and one.arm not in lines:
            block, off = found
            lines[one.arm] = (
                f"{one.arm} in block {block}: {summary.phrase(one.metric).short_noun} {size(math.expm1(off))} "
                f"{'higher' if off > 0 else 'lower'} than in its other blocks, relative to {one.control}. "
                "This widens its interval; more blocks make it narrower."
            )
    return list(lines.values())


def _odd_block(log_ratios: Mapping[int, float]) -> tuple[int, float] | None:
    """The block that is far from all others, and by how much; None if there is none."""
    if len(log_ratios) <= FEWEST_OTHERS:
        return None
    middle = statistics.median(log_ratios.values())
    odd = max(log_ratios, key=lambda block: abs(log_ratios[block] - middle))
    others = [ratio for block, ratio in log_ratios.items() if block != odd]
    off = log_ratios[odd] - statistics.mean(others)
    return (odd, off) if abs(off) > ODD_START * statistics.stdev(others) else None
