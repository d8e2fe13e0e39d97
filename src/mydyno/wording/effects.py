"""The sentence that one effect allows: as the answer speaks of it, with load and blocks, and with what weakens it."""

from __future__ import annotations

from mydyno.language import agreed
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.fact import Fact
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.results.precision import MOST_PROMISED, UNPLANNED
from mydyno.results.values.found import found_less
from mydyno.wording.numbers import NARROW_SPACE, blocks, margin_text, p_value, signed_percent, size
from mydyno.wording.reasons import NO_PAIR, alarm_clause, lost_blocks, recorded_failure, unproved_words
from mydyno.wording.stored_result import StoredResult

WEAKNESSES = {
    "before_look": "no verdict before the interim analysis at {after} blocks",
    "between_looks": "no verdict between interim analyses",
    "few_blocks": "{n} cannot give a p of {alpha:g} or less: {fewest} are needed to claim a difference",
    "permutation_alone": "the permutation test alone finds a difference (adjusted p = {p}), the interval does not",
    "interval_alone": "the interval alone finds a difference, the permutation test does not (adjusted p = {p})",
    "copies_differ": "two copies of {copied} differ by as much",
}
"""What keeps an interval on one side of 1 from being a difference, by the fact of an inconclusive effect."""


def sentence_of(result: StoredResult, effect: EffectRecord) -> str:
    """The sentence of one of the study's effects."""
    level = next((step for step in result.summary.steps if step.id == effect.step), None)
    hosts = {result.group_of.get(block, "") for block in effect.details.log_ratios or {}}
    margin = result.study.experiment.verdict.margin_of(effect.metric)
    sentence = effect_sentence(effect, level, len(hosts), margin, result.summary.looks is not None)
    if unproved := unproved_words(result.summary, (effect,)):
        sentence += f" Not proved: {unproved}."
    pair = found_less(result.summary.found, effect)
    if pair is None:
        return sentence
    less, more = sorted(pair, key=lambda one: one.share)
    claim = f"{less.arm} found {size(less.share)} of the {less.of} that it looked for"
    return f"{sentence} Not the same work: {claim}, {more.arm} {size(more.share)}."


def effect_sentence(effect: EffectRecord, level: StepLevel | None, hosts: int, margin: float, sequential: bool) -> str:
    """The sentence of an effect at this load level (None: not said), of blocks on so many hosts, with the declared
    margin. `sequential`: the study has looks.
    """
    words = phrase_of(effect.metric, (level.workload if level else "",))
    details, control = effect.details, effect.control
    change = "" if effect.ratio is None else _changed(effect.ratio)
    if effect.ci_low is not None and effect.ci_high is not None:
        change += f" ({_between(effect.ci_low, effect.ci_high)})"
    notes: list[str] = []
    match effect.verdict:
        case "higher":
            claim = f"{words.one} {words.more} than {control}"
        case "lower":
            claim = f"{words.one} {words.less} than {control}"
        case "equivalent":
            claim = f"is equivalent to {control} within {margin_text(margin)} in {words.noun}"
            low, high = details.equivalence_low, details.equivalence_high
            change = "" if low is None or high is None else _between(low, high)
        case "inconclusive":
            claim = f"against {control} is inconclusive in {words.noun}"
            notes = [_weakness(effect), _ability(effect), _remedy(effect, margin, sequential)]
            change += " in the only block, without an interval" if effect.ci_low is None else ""
        case "not_measurable":
            claim, change = f"against {control} is not measurable in {words.noun}", _obstacle(effect)
        case None:
            claim = f"against {control}, exploratory: {words.noun}"
            why = ", ".join(filter(None, (recorded_failure(effect), *lost_blocks(details))))
            change = change or f"no ratio{': ' + why if why else ''}"
    at = f" at {level.level}" if level else ""
    number = blocks(effect.n) + (f" on {hosts} hosts" if hosts > 1 else "")
    where = f"{at} ({', '.join(filter(None, (level.workload if level else '', number)))})"
    found = "; ".join(filter(None, (change, *notes)))
    sentence = f"{effect.arm} {claim}{where}{': ' if found else ''}{found}."
    return agreed(" ".join((sentence, *_caveats(effect, margin))))


def _changed(ratio: float) -> str:
    """With as many digits as in the tables."""
    return signed_percent(ratio - 1).replace(NARROW_SPACE, " ")


def _between(low: float, high: float) -> str:
    return f"between {_changed(low)} and {_changed(high)}"


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
    own = {"n": blocks(effect.n), "p": p_value(effect.details.p_adjusted_permutation), "copied": _copied(effect)}
    return WEAKNESSES[found.fact].format(**own, **found.values)


def _ability(effect: EffectRecord) -> str:
    """What such a study can show; empty where its noise is too large for a promise."""
    half, found = effect.details.half_width, effect.details.detectable
    promised = found is not None and half is not None and half <= MOST_PROMISED
    return f"such a study finds a true difference of {size(found or 0.0)} with 80 % power" if promised else ""


def _remedy(effect: EffectRecord, margin: float, sequential: bool) -> str:
    """About how many more blocks would decide; empty if one block leaves no spread to plan from."""
    more, half = effect.details.blocks_needed, effect.details.half_width
    if more is None or (half is not None and half > MOST_PROMISED):
        return ""
    needed = effect.n + more
    if needed >= UNPLANNED:
        number = "no interim analysis" if sequential else "no practical number of blocks"
        return f"{number} decides within {margin_text(margin)} with this noise"
    where_to = f"up to the interim analysis at {needed}" if sequential else f"{needed} in a new study"
    aim = "to show a difference of this size" if _fact(effect, "seems_different") else f"for {margin_text(margin)}"
    extra, verb = ("1 more block", "is") if more == 1 else (f"{more} more blocks", "are")
    return f"about {extra} ({where_to}) {verb} needed {aim}"


def _obstacle(effect: EffectRecord) -> str:
    """Why the contrast cannot be measured."""
    details, n, lost = effect.details, effect.n, sum(effect.details.lost.values())
    gates = ", ".join(f"{reason} ({blocks(count)})" for reason, count in sorted(details.lost.items()))
    if details.failure:
        return recorded_failure(effect)
    if n == 0:
        return f"{NO_PAIR}{': ' + gates if gates else ''}"
    if lost > n:
        return f"{lost} of {lost + n} blocks are not used: {gates}"
    if _fact(effect, "no_second_copy"):
        copy = f"the second copy of {_copied(effect)} has no valid run"
        return f"{copy}, so the difference between equal servers is unknown"
    alarm = alarm_clause(details.alarm)
    return f"{alarm} although they are identical, so this study claims neither a difference nor equivalence"


def _caveats(effect: EffectRecord, margin: float) -> list[str]:
    """What weakens the answer, as sentences."""
    if effect.verdict in ("not_measurable", None):
        return []
    details, notes = effect.details, []
    if _fact(effect, "within_margin"):
        notes.append(f"The difference is within {margin_text(margin)}.")
    if lost := sum(details.lost.values()):
        counts = sorted(details.lost.items())
        why = ", ".join(f"{reason} ({count})" if lost > 1 else reason for reason, count in counts)
        notes.append(f"{blocks(lost)} of {lost + effect.n} {'is' if lost == 1 else 'are'} not used: {why}.")
    if details.skewed:
        notes.append("The block differences are skewed, so the interval may be too narrow.")
    if details.half_width == 0.0:
        notes.append("Every block has exactly the same ratio, so the interval has no width.")
    if details.copied:
        notes.append(f"The A/A comparison is that of {details.copied}, the arm that every block runs twice.")
    return notes
