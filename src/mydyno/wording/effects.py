"""The sentence that one effect allows: in English, with sizes, load and blocks, and with what weakens it."""

from __future__ import annotations

from dataclasses import dataclass

from mydyno.language import agreed
from mydyno.model.definition.quantities import load_level
from mydyno.model.metrics import metric_source, phrase_of
from mydyno.model.phrases import Phrase
from mydyno.model.stored.fact import Fact
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.results.precision import MOST_PROMISED, UNPLANNED
from mydyno.results.values.found import found_less
from mydyno.wording.reasons import NO_PAIR, alarm_clause, lost_blocks, recorded_failure, unproved_words
from mydyno.wording.stored_result import StoredResult

TENFOLD = 10.0
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
    sentence = agreed(effect_sentence(effect, level, len(hosts), margin, result.summary.looks is not None))
    if unproved := unproved_words(result.summary, (effect,)):
        sentence += f" Not proved: {unproved}."
    pair = found_less(result.summary.found, effect)
    if pair is None:
        return sentence
    less, more = sorted(pair, key=lambda one: one.share)
    claim = f"{less.arm} found {percent(less.share)} of the {less.of} that it looked for"
    return f"{sentence} Not the same work: {claim}, {more.arm} {percent(more.share)}."


def effect_sentence(effect: EffectRecord, level: StepLevel | None, hosts: int, margin: float, sequential: bool) -> str:
    """The sentence of an effect at this load level (None: not said), of blocks on so many hosts, with the declared
    margin. `sequential`: the study has looks.
    """
    one = _Contrast(effect, level, hosts, margin, sequential)
    match effect.verdict:
        case "higher":
            return one.difference(one.phrase.past_more)
        case "lower":
            return one.difference(one.phrase.past_less)
        case "equivalent":
            return one.equivalent()
        case "inconclusive":
            return one.inconclusive()
        case "not_measurable":
            return one.not_measurable()
        case None:
            return one.exploratory()


@dataclass(frozen=True, slots=True)
class _Contrast:
    effect: EffectRecord
    level: StepLevel | None
    hosts: int
    margin: float
    sequential: bool

    @property
    def phrase(self) -> Phrase:
        return phrase_of(self.effect.metric, (self.level.workload if self.level else "",))

    def difference(self, words: str) -> str:
        """Sizes are without sign, because the words carry the direction."""
        effect = self.effect
        assert effect.ratio is not None and effect.ci_low is not None and effect.ci_high is not None
        low, high = sorted(abs(end - 1.0) for end in (effect.ci_low, effect.ci_high))
        claim = f"{effect.arm} {words.format(x=percent(effect.ratio - 1.0))} {effect.control}"
        source = metric_source(effect.metric)
        lower = "lower is better" if source is not None and source.better == "lower" else ""
        small = f" The difference is within ±{self._margin}." if self.fact("within_margin") else ""
        return f"{claim} [{percent(low)}, {percent(high)}]{self._at}{self._where(lower)}.{small}{self._caveats()}"

    def equivalent(self) -> str:
        low, high = self.effect.details.equivalence_low, self.effect.details.equivalence_high
        interval = "" if low is None or high is None else f" [{_signed(low)}, {_signed(high)}]"
        claim = f"{self.effect.arm} and {self.effect.control} are equivalent within ±{self._margin}"
        return f"{claim} in {self.phrase.noun}{interval}{self._at}{self._where()}.{self._caveats()}"

    def inconclusive(self) -> str:
        """What the difference could be, what this study can show, and about how many more blocks would decide."""
        effect = self.effect
        subject = f"the difference in {self.phrase.noun} between {effect.arm} and {effect.control}"
        around = f"{self._at}{self._where()}"
        if effect.ci_low is None or effect.ci_high is None:
            only = _signed(effect.ratio or 1.0)
            claim = f"Inconclusive: {subject}{around} was {only} in the only block, without an interval"
        else:
            claim = f"Inconclusive: {subject} is between {_signed(effect.ci_low)} and {_signed(effect.ci_high)}{around}"
        half, found = effect.details.half_width, effect.details.detectable
        promised = found is not None and half is not None and half <= MOST_PROMISED
        ability = f"such a study finds a true difference of {percent(found or 0.0)} with 80 % power" if promised else ""
        return "; ".join(filter(None, (claim, self._weakness(), ability, self._remedy()))) + f".{self._caveats()}"

    def not_measurable(self) -> str:
        subject = f"{self.phrase.noun} of {self.effect.arm} against {self.effect.control}"
        return f"Not measurable here: {subject}{self._at}{self._where()}: {self._obstacle()}."

    def exploratory(self) -> str:
        """An unadjusted interval, and none of the verdicts' words."""
        effect = self.effect
        subject = f"Exploratory: {self.phrase.noun} of {effect.arm} against {effect.control}"
        around = self._at + self._where()
        if effect.ratio is None:
            reasons = ", ".join(filter(None, (recorded_failure(effect), *lost_blocks(effect.details))))
            return f"{subject}{around}: no ratio{': ' + reasons if reasons else ''}."
        if effect.ci_low is None or effect.ci_high is None:
            return f"{subject} {_signed(effect.ratio)}{around}; one block gives no interval."
        return f"{subject} {_signed(effect.ratio)} [{_signed(effect.ci_low)}, {_signed(effect.ci_high)}]{around}."

    @property
    def _margin(self) -> str:
        return f"{self.margin * 100.0:g} %"

    @property
    def _copied(self) -> str:
        """The arm that every block runs twice."""
        return self.effect.details.copied or self.effect.control

    @property
    def _at(self) -> str:
        return f" at {load_level(self.level.connections, self.level.rate)}" if self.level else ""

    def _where(self, direction: str = "") -> str:
        hosts = f" on {self.hosts} hosts" if self.hosts > 1 else ""
        workload = self.level.workload if self.level else ""
        return f" ({', '.join(filter(None, (direction, workload, blocks(self.effect.n) + hosts)))})"

    def fact(self, *names: str) -> Fact | None:
        """The first of its facts that is one of these."""
        return next((one for one in self.effect.details.facts if one.fact in names), None)

    def _weakness(self) -> str:
        found, effect = self.fact(*WEAKNESSES), self.effect
        p = effect.details.p_adjusted_permutation
        if found is None:
            return ""
        own = {"n": blocks(effect.n), "p": "" if p is None else p_value(p), "copied": self._copied}
        return WEAKNESSES[found.fact].format(**own, **found.values)

    def _remedy(self) -> str:
        """About how many more blocks would decide; empty if one block leaves no spread to plan from."""
        more = self.effect.details.blocks_needed
        half = self.effect.details.half_width
        if more is None or (half is not None and half > MOST_PROMISED):
            return ""
        needed = self.effect.n + more
        if needed >= UNPLANNED:
            number = "no interim analysis" if self.sequential else "no practical number of blocks"
            return f"{number} decides within ±{self._margin} with this noise"
        extra = "1 more block" if more == 1 else f"{more} more blocks"
        where_to = f"up to the interim analysis at {needed}" if self.sequential else f"{needed} in a new study"
        aim = "to show a difference of this size" if self.fact("seems_different") else f"for ±{self._margin}"
        return f"about {extra} ({where_to}) {'is' if more == 1 else 'are'} needed {aim}"

    def _obstacle(self) -> str:
        """Why the contrast cannot be measured."""
        details, n, lost = self.effect.details, self.effect.n, sum(self.effect.details.lost.values())
        gates = ", ".join(f"{reason} ({blocks(count)})" for reason, count in sorted(details.lost.items()))
        if details.failure:
            return recorded_failure(self.effect)
        if n == 0:
            return f"{NO_PAIR}{': ' + gates if gates else ''}"
        if lost > n:
            return f"{lost} of {lost + n} blocks are not used: {gates}"
        if self.fact("no_second_copy"):
            return (
                f"the second copy of {self._copied} has no valid run, so the difference between equal servers is "
                "unknown"
            )
        alarm = alarm_clause(details.alarm)
        return f"{alarm} although they are identical, so this study claims neither a difference nor equivalence"

    def _caveats(self) -> str:
        """What weakens the answer, as sentences with a space before each."""
        details, notes = self.effect.details, ""
        if lost := sum(details.lost.values()):
            counts = sorted(details.lost.items())
            why = ", ".join(f"{reason} ({count})" if lost > 1 else reason for reason, count in counts)
            verb = "is" if lost == 1 else "are"
            notes += f" {blocks(lost).capitalize()} of {lost + self.effect.n} {verb} not used: {why}."
        if details.skewed:
            notes += " The block differences are skewed, so the interval may be too narrow."
        if details.half_width == 0.0:
            notes += " Every block has exactly the same ratio, so the interval has no width."
        if details.copied:
            notes += f" The A/A comparison is that of {details.copied}, the arm that every block runs twice."
        return notes


def _signed(ratio: float) -> str:
    """A ratio as a signed difference: +4.2 % or −4.2 %; beyond a tenfold its digits mean nothing and are left out."""
    if ratio > TENFOLD:
        return "more than +900 %"
    return ("+" if ratio >= 1.0 else "\N{MINUS SIGN}") + percent(ratio - 1.0)


def percent(fraction: float) -> str:
    """The size of a fraction as a percentage: one decimal, none from 100 % on, two below 0.1 %."""
    size = abs(fraction) * 100.0
    return f"{size:.{0 if size >= 100.0 else 1 if size >= 0.095 or size < 0.005 else 2}f} %"


def blocks(count: int) -> str:
    """1 block, 2 blocks."""
    return f"{count} block" if count == 1 else f"{count} blocks"


def p_value(p: float) -> str:
    """A p value of two significant digits, never 0."""
    return f"{p:.2g}" if p >= 0.0001 else "below 0.0001"
