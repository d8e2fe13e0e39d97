"""A bisection as a document: the answer, the effects as a forest, the path, and how it was decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isclose, sqrt

from mydyno.document.drawing import ArmStyle
from mydyno.document.forest import ForestGroup, ForestRow, forest_charts
from mydyno.document.parts import Cell, Document, Figure, FigureGroup, Figures, Listed, Part, Table
from mydyno.language import agreed, listing
from mydyno.model.definition.quantities import format_duration
from mydyno.model.stored.bisection import BisectRecord, BisectResult, Commit, Comparison
from mydyno.wording.numbers import bounds_text, effect_text, limit_text, metric_name, shows_plain

MOST_SUSPECTS = 20
SKIPPED = {
    "build": "did not build",
    "start": "did not start",
    "failed": "failed under load",
    "undecided": "was undecided",
    "invalid": "had no valid run",
}


LOOKS = {"good": (2, "circle"), "bad": (1, "diamond"), "skipped": (0, "cross")}
"""Outcome → colour and marker."""


def bisect_document(record: BisectRecord, result: BisectResult) -> Document:
    """All of it."""
    skipped = [one for one in result.comparisons if one.outcome == "skipped" and one.reason]
    reasons = [f"{one.commit.short}: {one.reason}" for one in skipped]
    return Document(
        title=f"Which commit between {record.good.short} and {record.bad.short} made it worse?",
        over="bisection",
        below=f"{record.experiment.name}: {record.experiment.question}",
        parts=[
            Part(
                id="answer", heading="Answer",
                lead=[*_finding(record, result), *_ends(record, result), *_skips(result)],
            ),
            _chart(record, result),
            Part(
                id="path", heading="The path", short="Path",
                body=[path(result), Listed(reasons, "Why commits were skipped")],
            ),
            Part(id="how", heading="How it was decided", short="Method", body=[Listed(_method(record, result))]),
        ],
    )  # fmt: skip


def _finding(record: BisectRecord, result: BisectResult) -> list[str]:
    if result.state == "found" and result.first_bad is not None:
        return [f"The first bad commit is {_named(result.first_bad)}.", *_remainder(record, result)]
    if result.state == "range":
        names = [one.short for one in result.suspects]
        shown = listing(names) if len(names) <= MOST_SUSPECTS else f"{names[0]} to {names[-1]}"
        return [
            f"The first bad commit is one of {len(names)}: {shown}. It is undecided which, because commits among "
            f"them were skipped."
        ]
    what = metric_name(record.metric)
    ends = f"{record.good.short} (good) and {record.bad.short} (bad)"
    if result.state == "unfinished":
        go_on = f"To continue: `mydyno bisect {record.bisection}`."
        return [f"Interrupted: the first bad commit is one of {result.left}. {go_on}"]
    if result.state == "no difference":
        beyond = "" if record.threshold is None else f" by more than {record.threshold * 100:.3g} %"
        return [
            f"{ends} do not differ{beyond} in {what}: there is no such commit. If {record.bad.short} is known to "
            f"be worse than an older commit, {record.good.short} is bad already: set that commit as --good."
        ]
    if result.state == "better":
        return [f"The bad end, {record.bad.short}, is better than the good end, {record.good.short}, in {what}: there "
                "is no commit that made it worse."]  # fmt: skip
    reason = "" if result.ends is None or not result.ends.comparison.reason else f": {result.ends.comparison.reason}"
    return [f"It is undecided whether {ends} differ in {what}{reason}.".replace("..", ".")]


def _remainder(record: BisectRecord, result: BisectResult) -> list[str]:
    """What the named commit leaves to find: its effect, why it is not all, and the command that continues."""
    if result.remainder is None or result.first_bad is None:
        return []
    named = next(one for one in result.comparisons if one.commit.hash == result.first_bad.hash)
    what, is_more = metric_name(record.metric), result.remainder.named == "more"
    does = f"undoes a part of its change of {what}" if is_more else f"changes {what}, too"
    found = (
        f"It is not the whole answer: it changes {what} by {effect_text(named.ratio)} "
        f"({bounds_text(named.low, named.high)}), {result.remainder.named} than what the ends differ by"
    )
    if not result.remainder.command:
        return [f"{found}: the bad end, {record.bad.short}, {does}."]
    why = "If the next commit reverted it, this finds the rest" if is_more else "To continue"
    return [f"{found}: at least one later commit {does}. {why}:", f"`{result.remainder.command}`"]


def _named(commit: Commit) -> str:
    who = commit.author.partition(" <")[0]
    return f"{commit.hash} ({commit.subject}; {who}, {commit.date[:10]})"


def _ends(record: BisectRecord, result: BisectResult) -> list[str]:
    ends = result.ends
    if ends is None or ends.comparison.ratio is None:
        return []
    at = f" at {ends.step}" if ends.step else ""
    one = ends.comparison
    effect = f"{effect_text(one.ratio)} ({bounds_text(one.low, one.high)})"
    found = f"{metric_name(record.metric)}{at}: {record.bad.short} differs from {record.good.short} by {effect}."
    if ends.limit is None:
        return [found]
    limit = limit_text(ends.limit)
    if record.threshold is not None:
        how = "as set"
    else:
        is_half = isclose(ends.limit, sqrt(ends.comparison.ratio), rel_tol=1e-3)
        how = "half of that" if is_half else "the near end of that interval"
    return [f"{found} A commit is bad if it is significantly beyond {limit} ({how}), good if significantly within it."]


def _skips(result: BisectResult) -> list[str]:
    counts = Counter(one.skipped_because for one in result.comparisons if one.outcome == "skipped")
    if not counts:
        return []
    total = sum(counts.values())
    parts = [f"{count} {SKIPPED.get(why, why)}" for why, count in counts.items()]
    return [agreed(f"{total} commits were skipped: {listing(parts)}.")]


def _chart(record: BisectRecord, result: BisectResult) -> Part:
    drawn = [(one.commit.short, one) for one, _ in _made(result) if one.ratio is not None]
    rows = tuple(
        ForestRow.of(ArmStyle(name, name, *LOOKS[one.outcome], ""), one.ratio, one.low, one.high, word=one.outcome)
        for name, one in drawn
    )
    step = result.ends.step if result.ends is not None else ""
    label = f"{metric_name(record.metric)}{f', {step}' if step else ''}"
    groups = [ForestGroup(step or "every load level", rows)]
    described = "Effect of each commit relative to the good end, with its interval"
    figure = Figure(forest_charts("path", label, described, groups), css="double")
    intro = "Each row is one commit in the order of the comparisons."
    figures = Figures([FigureGroup(label, [figure])], intro=intro)
    return Part(id="effects", heading="Effects along the path", short="Effects", body=[figures] if rows else [])


def _made(result: BisectResult) -> list[tuple[Comparison, str]]:
    """The ends and every compared commit, in the order in which they were compared, with what each is."""
    made: list[tuple[Comparison, str]] = [(one, one.outcome) for one in result.comparisons]
    if result.ends is not None:
        made.insert(0, (result.ends.comparison, "bad end" if result.ends.state == "differ" else result.ends.state))
    return made


def path(result: BisectResult) -> Table:
    """A row for each of them."""
    made = _made(result)
    levels = {level for one, _ in made if (level := _level(one))}
    interval = f"{levels.pop()} interval" if len(levels) == 1 else "interval"
    is_adjusted = shows_plain((one.ratio, one.plain) for one, _ in made)
    rows: list[Sequence[str | Cell]] = []
    for one, found in made:
        why = f": {SKIPPED.get(one.skipped_because, '')}" if one.outcome == "skipped" and one.skipped_because else ""
        level = f" ({_level(one)})" if levels and _level(one) else ""
        rows.append([
            one.commit.short, one.commit.subject, f"{found}{why}", Cell(effect_text(one.ratio), "num"),
            *([Cell(effect_text(one.plain), "num")] if is_adjusted else []),
            Cell(f"{bounds_text(one.low, one.high)}{level}", "num"), Cell(str(one.blocks or ""), "num"),
            Cell(format_duration(one.duration_s) if one.study else "", "num"),
        ])  # fmt: skip
    plain = ("plain",) if is_adjusted else ()
    head = ("commit", "subject", "result", "effect", *plain, interval, "blocks", "time")
    note = "Plain effects are without the adjustment for the host's speed." if is_adjusted else ""
    return Table("Each commit relative to the good end", head, rows, note)


def share_words(share: float) -> str:
    """A share as a percentage of three digits at most: 5 %, 0.833 %; near 100 % of its distance: 99.17 %."""
    if share > 0.9:
        return f"{100 - float(f'{(1 - share) * 100:.2g}'):.6g} %"
    return f"{share * 100:.3g} %"


def _level(one: Comparison) -> str:
    """The confidence of its interval; empty if it has none."""
    return "" if one.confidence is None or one.low is None else share_words(one.confidence)


def _method(record: BisectRecord, result: BisectResult) -> list[str]:
    """How it was decided."""
    found = [
        f"{record.commits} commit{'' if record.commits == 1 else 's'} after {record.good.short}, in the order of git "
        f"bisect; {len(result.comparisons)} compared, each with {record.good.short} in a study of its own, with a "
        "second copy of the control (A/A) in every block."
    ]
    if result.ends is not None and result.ends.limit is not None:
        found.append(
            f"The probability that the named commit or range is wrong is at most {share_words(record.error_rate)}; it "
            "is divided over the studies. It covers noise, but not what the layout of each build's code changes: see "
            "`builds`."
        )
    if record.longest_s is not None:
        found.append(f"A commit that is undecided after {format_duration(record.longest_s)} is skipped.")
    return found
