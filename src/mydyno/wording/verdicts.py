"""Verdicts in tables and charts: words, signs, classes of colour, and what stands beside them: why one is undecided or
not measurable, and what weakens it. Reasons as sentences quote them, and what limits a study in a few words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from mydyno.hosts.telemetry import EVERYTHING
from mydyno.language import agreed, listing
from mydyno.model.metrics import COST_METRIC, phrase_of
from mydyno.model.stored.reasons import CHECK_LABELS, GIVEN_UP, ArmFailure, CopiesDiffer, Fact
from mydyno.model.stored.summary import EffectDetails, EffectRecord, FoundRecord, RunSummary, Summary
from mydyno.results.precision import MOST_PROMISED, failed_arm, failed_blocks, failures_of, steal_share, strangers_share
from mydyno.results.values.doubts import found_less
from mydyno.wording.numbers import (
    NARROW_SPACE,
    NONE,
    blocks,
    display_unit,
    margin_text,
    metric_name,
    p_value,
    ratio_interval,
    share_range,
    size,
)
from mydyno.wording.stored_result import StoredResult

NO_PAIR = "no block has a valid run of both arms"
"""Why a contrast has no block where no run was lost."""
REASON_CHARACTERS, SENTENCE_CHARACTERS = 90, 240
"""Of a reason in the answer, and in a sentence in full."""
NAMED_SHARE = 0.05
"""Share of the CPU time below which neither hypervisor nor other programs are named."""
CLAIMS = {"agrees": "agree", "partly": "partly", "disagrees": "disagree", "cannot tell": "undecided"}
"""Answers to claims of published studies as they are counted."""
LOG_HEAD = re.compile(
    r"\s*error log: (?:(?:\d{4}-\d\d-\d\d|\d{6}) +[\d:]+ (?:\d+ )?)?(?:\[\w+\] )?(?:\S*/(?:mysqld|mariadbd): )?"
)
"""What a quoted line of the server's error log begins with: time, thread, level, program."""


def cut(reason: str, characters: int = REASON_CHARACTERS) -> str:
    """A reason on one line, without its full stop and the heads of log lines, at most so many characters long."""
    text = " ".join(LOG_HEAD.sub("; ", LOG_HEAD.sub(": ", reason, count=1)).split()).rstrip(".")
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def causes(why: Mapping[str, int], characters: int = REASON_CHARACTERS) -> dict[str, int]:
    """{why something failed: in how many blocks}, the most frequent first; that it was given up then, last."""
    found: Counter[str] = Counter()
    for reason, count in why.items():
        found[cut(reason, characters)] += count
    return dict(sorted(found.items(), key=lambda one: (one[0] == GIVEN_UP, -one[1])))


def failure_of(summary: Summary, effect: EffectRecord) -> str:
    """Why a contrast has no number because its arm or its control failed; empty if neither did."""
    if effect.verdict != "not_measurable" or effect.ratio is not None:
        return ""
    if recorded := recorded_failure(effect):
        return recorded
    for arm, name in ((effect.arm, effect.arm), (effect.control, f"the control {effect.control}")):
        failed = failed_blocks(summary.runs, arm, effect.step)
        if failed:
            return agreed(f"{name} failed in {len(failed)} blocks ({next(iter(causes(Counter(failed.values()))))})")
    return ""


def recorded_failure(effect: EffectRecord) -> str:
    """What failed of an effect's contrast; empty if nothing is recorded."""
    return failure_clause(effect.details.failure, effect.arm, effect.control)


def failure_clause(failure: ArmFailure | None, arm: str, control: str) -> str:
    """Who failed of a contrast, in how many blocks, and why; empty without a failure."""
    if failure is None:
        return ""
    names = {"arm": arm, "control": f"the control {control}", "copy": f"the control's copy {control}′"}
    why = _counted(causes(failure.why, SENTENCE_CHARACTERS))
    return f"{names[failure.who]} failed in {failure.blocks} of {blocks(failure.tried)} ({why})"


def _counted(reasons: Mapping[str, int]) -> str:
    """Reasons, each with its number of blocks where there are several."""
    return next(iter(reasons)) if len(reasons) == 1 else ", ".join(
        f"{reason}: {count}" for reason, count in reasons.items()
    )  # fmt: skip


def may_last(effect: EffectRecord) -> bool:
    """Whether it would be equivalent, if its arms did not share a server and what they leave behind."""
    return any(one.fact == "may_last" for one in effect.details.facts)


def arm_failures(runs: Sequence[RunSummary]) -> str:
    """In how many runs an arm itself failed; empty if in none. Such runs are valid: a failure is a result."""
    failed = len({run.folder for run in runs if failures_of(run)})
    return agreed(f"an arm failed in {failed} runs") if failed else ""


def invalid_runs(runs: Sequence[RunSummary], failed: bool = False) -> str:
    """How many runs are not valid, and why: the first reason of each; empty if all are. `failed`: those of arms that
    failed too.
    """
    invalid = [run for run in runs if not run.valid and (failed or not run.failures)]
    causes = Counter(run.reasons[0].label for run in invalid if run.reasons)
    why = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common())
    return (
        agreed(f"{len(invalid)} of {len(runs)} runs are not valid and not used{': ' + why if why else ''}.")
        if invalid
        else ""
    )


def lost_blocks(details: EffectDetails) -> list[str]:
    """Why blocks do not count, or with one of two copies of the control, each reason with its number of blocks."""
    lost = [(reason, count) for reason, count in sorted(details.lost.items())]
    halved = [(f"{one}, one of two copies", count) for one, count in sorted(details.halved.items())]
    return [f"{reason} ({blocks(count)})" for reason, count in (*lost, *halved)]


def unproved_words(summary: Summary, effects: Sequence[EffectRecord]) -> str:
    """What was wanted of a treatment, and what the server has, where it cost these contrasts a block; else empty."""
    label = CHECK_LABELS["unproved"]
    lost = (one for one in effects if any(label in reason for reason in one.details.lost))
    arms = {name for one in lost for name in (one.arm, one.control)}
    reasons = (reason for run in summary.runs if run.arm in arms for reason in run.reasons)
    found = next((reason.text for reason in reasons if reason.check == "unproved"), "")
    return cut(found, SENTENCE_CHARACTERS)


def less_work(summary: Summary, effects: Sequence[EffectRecord]) -> str:
    """What was found, after a clause on these effects where the arms, or their controls, gain by finding less; else
    empty.
    """
    pairs: dict[str, list[tuple[FoundRecord, FoundRecord]]] = {one.arm: [] for one in effects}
    for one in effects:
        if pair := found_less(summary.found, one):
            pairs[one.arm].append(pair)
    found = [pair for of_arm in pairs.values() for pair in of_arm]
    if not found:
        return ""
    of_arms, of_controls = zip(*((arm.share, control.share) for arm, control in found), strict=True)
    share, arms = share_range(of_arms), [arm for arm, of_arm in pairs.items() if of_arm]
    of_keys, of_all = found[0][0].of == "keys", len(arms) == len(pairs)
    if of_keys:
        words = f"with {share} of the keys found" if of_all else f"where {listing(arms)} found {share} of the keys"
    elif of_all:
        words = f"with {share} of the statements finding a row"
    else:
        words = f"where {share} of the statements of {listing(arms)} found a row"
    return f", {words} instead of {share_range(of_controls)}"


def alarm_clause(alarm: CopiesDiffer | None) -> str:
    """Where two copies of the control differ; empty without an alarm."""
    if alarm is None:
        return ""
    match alarm.kind:
        case "metric" if alarm.difference is not None:
            return (
                f"two copies of {alarm.control} differ by {size(alarm.difference)} in "
                f"{phrase_of(alarm.of).noun} at {alarm.step} (adjusted p = {p_value(alarm.p)})"
            )
    of = f"sessions in {alarm.of}" if alarm.kind == "sessions" else alarm.of
    return f"two copies of {alarm.control} differ in {of} at {alarm.step}"


def unsampled(runs: Sequence[RunSummary]) -> list[str]:
    """A sentence for each family of metrics that runs lack, with the first reason; empty if every run has all."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for family, reason in run.unsampled.items():
            found.setdefault(family, []).append(reason)
    return [
        agreed(
            f"Not sampled in {len(reasons)} of {len(runs)} runs: "
            f"{'host and servers' if family == EVERYTHING else family} ({reasons[0]})."
        )
        for family, reasons in found.items()
    ]


def taken_of_cpus(summary: Summary, least: float = NAMED_SHARE) -> str:
    """A clause on what hypervisor and other programs took of the CPU time; empty if that is less than `least`."""
    steal, others = steal_share(summary) or 0.0, strangers_share(summary) or 0.0
    if steal + others < least:
        return ""
    whose = "this host's" if summary.host_groups is None else "these hosts'"
    if others < NAMED_SHARE:
        return f"The hypervisor took {steal * 100:.0f} % of {whose} CPU time"
    if steal < NAMED_SHARE:
        return f"Other programs used {others * 100:.0f} % of {whose} CPU time"
    return f"The hypervisor took {steal * 100:.0f} % of {whose} CPU time, and other programs used {others * 100:.0f} %"


def counted_claims(summary: Summary) -> str:
    """The number of each answer: "2 agree, 1 undecided"; empty without claims."""
    answers = [one.answer for one in summary.conclusions] + [one.agreement for one in summary.published]
    return ", ".join(
        f"{count} {answer if count == 1 and answer.endswith('agrees') else CLAIMS[answer]}"
        for answer, count in Counter(answers).most_common()
    )


WORDS = {
    "higher": "higher",
    "lower": "lower",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "not_measurable": "not measurable",
    "failed": "failed",
}
"""Each verdict in a table."""
SYMBOLS = {"higher": "▲", "lower": "▼", "equivalent": "≈", "inconclusive": "?", "not_measurable": "∅", "failed": "✕"}
NO_ESTIMATE = "no estimate"


def column_name(metric: str, workloads: Collection[str] = ()) -> str:
    """The heading of a metric's column, short."""
    return "CPU per query" if metric == COST_METRIC else metric_name(metric, workloads)


def sign_and_word(verdict: str | None) -> str:
    """A verdict in a chart; empty without one."""
    return f"{SYMBOLS[verdict]} {WORDS[verdict]}" if verdict else ""


def verdict_word(result: StoredResult, effect: EffectRecord) -> str:
    """The effect's verdict, or "failed" where the arm or its control failed; empty if it has none."""
    if failure_of(result.summary, effect):
        return "failed"
    return effect.verdict or ""


def verdict_text(result: StoredResult, effect: EffectRecord) -> str:
    """The same in words; where it was not the arm that failed, with who did."""
    word = verdict_word(result, effect)
    failed = failed_arm(result.summary, effect) if word == "failed" else effect.arm
    return f"{failed} failed" if failed != effect.arm else WORDS[word] if word else ""


def merit(result: StoredResult, effect: EffectRecord) -> str:
    """The CSS class of a verdict: better, worse, or neither; what comes from less work is neither."""
    word = verdict_word(result, effect)
    if word != "inconclusive" and found_less(result.summary.found, effect):
        return "neutral"
    metric = result.summary.metrics.get(effect.metric)
    return merit_of(word, metric.better if metric else "none")


def merit_of(word: str | None, better: str) -> str:
    """The CSS class of a verdict on a metric of which that is better."""
    if word in ("higher", "lower"):
        return "neutral" if better == "none" else "better" if better == word else "worse"
    return {"equivalent": "same", "inconclusive": "open", "failed": "failed"}.get(word or "", "none")


def absolute(result: StoredResult, metric: str, step: str, arm: str, digits: int = 3) -> str:
    """An arm's absolute value with its unit."""
    level = result.level_of(metric, step, arm)
    known = result.summary.metrics.get(metric)
    return NONE if level is None else display_unit(metric, level, known.unit if known else "").text(level, digits)


def flat(text: str) -> str:
    """Text for a terminal: a narrow no-break space becomes a normal one."""
    return text.replace(NARROW_SPACE, " ").replace("\u00a0", " ")


WEAKNESSES = {
    "before_look": "no verdict before the interim analysis at {after} blocks",
    "between_looks": "no verdict between interim analyses",
    "few_blocks": "{n} cannot give a p of {alpha:g} or less: {fewest} are needed to claim a difference",
    "permutation_alone": "the permutation test alone finds a difference, the interval does not",
    "interval_alone": "the interval alone finds a difference, the permutation test does not",
    "may_last": "an effect that lasts longer than a slice is in all arms",
    "copies_differ": "two copies of {copied} differ by as much",
}
"""What keeps an interval on one side of 1 from being a difference, by the fact of an inconclusive effect."""


def note_of(effect: EffectRecord, margin: float) -> str:
    """Clauses on an effect with this margin; empty if its interval says everything."""
    details = effect.details
    match effect.verdict:
        case "not_measurable":
            return agreed(obstacle(effect))
        case None:
            return "" if effect.ratio else ", ".join(filter(None, (recorded_failure(effect), *lost_blocks(details))))
        case "inconclusive":
            notes = [_weakness(effect), _ability(effect)]
        case "equivalent":
            own = ratio_interval(details.equivalence_low, details.equivalence_high)
            notes = [f"{own} for the comparison by itself"] if own else []
        case _:
            notes = [f"within {margin_text(margin)}"] if _fact(effect, "within_margin") else []
    if lost := sum(details.lost.values()):
        notes.append(f"{blocks(lost)} of {lost + effect.n} not used: {', '.join(lost_blocks(details))}")
    if details.skewed:
        notes.append("block differences are skewed: the interval may be too narrow")
    if details.half_width == 0.0:
        notes.append("every block has exactly the same ratio, so the interval has no width")
    if details.copied:
        notes.append(f"the A/A comparison is that of {details.copied}")
    return agreed("; ".join(filter(None, notes)))


def _fact(effect: EffectRecord, *names: str) -> Fact | None:
    """The first of its facts that is one of these."""
    return next((one for one in effect.details.facts if one.fact in names), None)


def _copied(effect: EffectRecord) -> str:
    """The arm that every block runs twice."""
    return effect.details.copied or effect.control


def _weakness(effect: EffectRecord) -> str:
    found = _fact(effect, *WEAKNESSES)
    if found is None:
        return ""
    own = {"n": blocks(effect.n), "copied": _copied(effect)}
    return WEAKNESSES[found.fact].format(**own, **found.values)


def _ability(effect: EffectRecord) -> str:
    """What such a study can show; empty where its noise is too large for a promise."""
    half, found = effect.details.half_width, effect.details.detectable
    promised = found is not None and half is not None and half <= MOST_PROMISED
    return f"such a study finds a true difference of {size(found or 0.0)} with 80 % power" if promised else ""


def obstacle(effect: EffectRecord) -> str:
    """Why the contrast cannot be measured."""
    details, n, lost = effect.details, effect.n, sum(effect.details.lost.values())
    checks = ", ".join(f"{reason} ({blocks(count)})" for reason, count in sorted(details.lost.items()))
    if details.failure:
        return recorded_failure(effect)
    if n == 0:
        return f"{NO_PAIR}{': ' + checks if checks else ''}"
    if lost > n:
        return f"{lost} of {lost + n} blocks are not used: {checks}"
    if _fact(effect, "no_second_copy"):
        return f"the second copy of {_copied(effect)} has no valid run: the difference between equal servers is unknown"
    return alarm_clause(details.alarm)
