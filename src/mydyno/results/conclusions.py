"""What study 4 concluded about networks, compared with this study's own verdicts and limits.

Only pairs of arms that differ in one treatment count, and only what was declared before the first run has a verdict.
Where the condition of a conclusion (a full link, a load above 32 connections) did not occur here, the answer is
"cannot tell", with what was there instead. Growth over connections and the traffic of a full link are no contrasts of
arms; they are decided by the interval of one number per block, from 6 blocks on. Where two copies of the control
differ (the A/A alarm), every answer is "cannot tell".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from mydyno.hosts.link import parse_bits_per_s
from mydyno.model.contrasts import only_difference
from mydyno.model.experiment import Experiment, Step, steps_of
from mydyno.model.records import ConclusionRecord, EffectRecord, LimitRecord, RunSummary
from mydyno.stats.agreement import Agreement, compare
from mydyno.stats.paired import paired
from mydyno.stats.tost import FEWEST_BLOCKS

STUDY = "study-4"
PUBLISHED_TRAFFIC_SHARE = 116 * 2**20 * 8 / 1e9
"""116 MiB/s of frames on 1 Gb."""
TRAFFIC_TOLERANCE = 0.05
FLAT = 0.05
"""Growth of throughput below this is none."""
PLAIN_GROWS = 0.10
STOPPED_AT = 32
"""Connections from which on TLS (OpenSSL 1.0) brought the published study no more throughput."""
TLS_AT_ONE_CONNECTION, TLS_ROUNDING = 0.90, 0.02
Answer = tuple[Agreement, str]
AGREES, DISAGREES, CANNOT_TELL = Agreement.AGREES, Agreement.DISAGREES, Agreement.CANNOT_TELL


@dataclass(frozen=True)
class Facts:
    """What a conclusion is compared with."""

    experiment: Experiment
    runs: Sequence[RunSummary]
    effects: Sequence[EffectRecord]
    limits: Mapping[tuple[str, str], LimitRecord]
    """{(arm, step): limit}."""

    def contrasts(self, treatment: str) -> Iterator[tuple[EffectRecord, Step]]:
        """Effects with a verdict on the primary metric of arms that differ in this treatment alone."""
        steps = {step.id: step for step in steps_of(self.experiment)}
        for effect in self.effects:
            if effect.metric == self.experiment.verdict.primary and effect.verdict and effect.step in steps:
                arms = self.experiment.arm(effect.arm), self.experiment.arm(effect.control)
                if only_difference(*arms) == treatment:
                    yield effect, steps[effect.step]

    def limit(self, arm: str, step: str) -> str:
        """What limited an arm at a step; "unknown" where its link was not proved."""
        found = self.limits.get((arm, step))
        return found.limit if found else "unknown"

    def logs(self, metric: str, arm: str) -> dict[str, dict[int, float]]:
        """{step: {block: log of the value}} of an arm's valid runs; of two copies the mean."""
        found: dict[str, dict[int, list[float]]] = {}
        for run in self.runs:
            for step, of_step in run.values.items() if run.valid and run.arm == arm else ():
                if of_step.get(metric, 0.0) > 0.0 and step not in run.invalid_steps and step not in run.failures:
                    found.setdefault(step, {}).setdefault(run.block, []).append(log(of_step[metric]))
        return {step: {block: fmean(of) for block, of in blocks.items()} for step, blocks in found.items()}

    def growth(self, metric: str, arm: str, low: str, high: str) -> Figure:
        """How much the metric grows from one step to another, one number per block."""
        logs = self.logs(metric, arm)
        first, last = logs.get(low, {}), logs.get(high, {})
        return figure_of([last[block] - first[block] for block in sorted(first.keys() & last.keys())])

    @property
    def alarm(self) -> str:
        """The A/A alarm of this study; empty where there is none."""
        return next((str(e.details["alarm"]) for e in self.effects if e.details.get("alarm")), "")


@dataclass(frozen=True)
class Figure:
    """A ratio with its 95 % interval over blocks; without `low` and `high` there are too few blocks."""

    ratio: float | None
    low: float | None
    high: float | None

    @property
    def words(self) -> str:
        """+3.2 % [+1.0 %, +5.4 %]."""
        if self.ratio is None:
            return "not measured"
        if self.low is None or self.high is None:
            return f"{_signed(self.ratio - 1)} in fewer than {FEWEST_BLOCKS} blocks"
        return f"{_signed(self.ratio - 1)} [{_signed(self.low - 1)}, {_signed(self.high - 1)}]"

    def within(self, tolerance: float) -> Answer:
        """Agrees where the interval lies inside 1 ± tolerance, disagrees where it lies outside."""
        if self.low is None or self.high is None:
            return CANNOT_TELL, self.words
        if 1 - tolerance <= self.low and self.high <= 1 + tolerance:
            return AGREES, self.words
        return (DISAGREES if self.low > 1 + tolerance or self.high < 1 - tolerance else CANNOT_TELL), self.words


def figure_of(log_ratios: Sequence[float]) -> Figure:
    """The figure from one log ratio per block."""
    answer = paired(log_ratios)
    if answer.n < FEWEST_BLOCKS:
        return Figure(answer.ratio, None, None)
    return Figure(answer.ratio, answer.interval.low, answer.interval.high)


def conclusions_of(
    experiment: Experiment,
    runs: Sequence[RunSummary],
    effects: Sequence[EffectRecord],
    limits: Sequence[LimitRecord],
) -> tuple[ConclusionRecord, ...]:
    """Every conclusion with its answer, in the study's order; empty where the experiment does not repeat it."""
    if STUDY not in experiment.published or not any("network" in arm.treatments for arm in experiment.arms):
        return ()  # the study's appendix on huge pages has experiments of its own
    facts = Facts(experiment, runs, effects, {(limit.arm, limit.step): limit for limit in limits})
    records = []
    alarm = facts.alarm
    for part, claim, test in CLAIMS:
        answer, because = (CANNOT_TELL, alarm) if alarm else test(facts)
        records.append(
            ConclusionRecord(study=STUDY, part=part, claim=claim, answer=Agreement(answer).value, because=because)
        )
    return tuple(records)


def _full_link_carries_its_speed(facts: Facts) -> Answer:
    """The most that any arm carried on each bandwidth: a link counts as full from 90 % on."""
    outside = facts.experiment.server.dsn is not None  # then the load's interface is sampled
    metric = f"network_{'rx' if outside else 'tx'}_bytes_per_s"
    most: dict[float, tuple[float, str, Figure]] = {}
    for (arm, step), limit in facts.limits.items():
        speed = _bits_per_s(facts.experiment.arm(arm).treatments.get("network"))
        sent = list(facts.logs(metric, arm).get(step, {}).values())
        if limit.limit == "link" and speed and sent:
            share = exp(fmean(sent)) * 8 / speed
            figure = figure_of([one + log(8 / speed / PUBLISHED_TRAFFIC_SHARE) for one in sent])
            if share > most.get(speed, (0.0, ""))[0]:
                most[speed] = share, f"{arm} at {step}", figure
    if not most:
        return CANNOT_TELL, _no_full_link(facts)
    words = "; ".join(f"{where} sent {_percent(share)} of its nominal speed" for share, where, _ in most.values())
    return _all([figure.within(TRAFFIC_TOLERANCE)[0] for _, _, figure in most.values()]), words


def _all(answers: Sequence[Agreement]) -> Agreement:
    """One answer from several: disagrees where any does, agrees where all do."""
    if DISAGREES in answers:
        return DISAGREES
    return AGREES if answers and all(answer == AGREES for answer in answers) else CANNOT_TELL


def _no_full_link(facts: Facts) -> str:
    if not facts.limits:
        return "no arm has a proved link"
    fullest = max(facts.limits.values(), key=lambda limit: limit.shares.get("link", 0.0))
    share = fullest.shares.get("link", 0.0)
    return f"no link was full here: the fullest was that of {fullest.arm} at {fullest.step}, {_percent(share)}"


def _no_pair_at_a_full_link(facts: Facts, words: str) -> str:
    """What was there instead of pairs at a full link: `words` say which pairs."""
    full = [f"{arm} at {step}" for (arm, step), limit in facts.limits.items() if limit.limit == "link"]
    return f"no {words} at a full link; full was that of {', '.join(full)}" if full else _no_full_link(facts)


def _full_link_is_flat(facts: Facts) -> Answer:
    growth = {}
    for arm in facts.experiment.arms:
        measured = facts.logs("tps", arm.name)
        full = [step for step in steps_of(facts.experiment) if facts.limit(arm.name, step.id) == "link"]
        full = sorted((step for step in full if step.id in measured), key=lambda step: step.connections)
        if len(full) > 1 and full[0].workload == full[-1].workload:
            growth[f"{arm.name} from {full[0].connections} to {full[-1].connections} connections"] = facts.growth(
                "tps", arm.name, full[0].id, full[-1].id
            )
    if not growth:
        return CANNOT_TELL, "no arm filled its link at two loads"
    words = "; ".join(f"{where}: {figure.words}" for where, figure in growth.items())
    return _all([figure.within(FLAT)[0] for figure in growth.values()]), words


def _by_verdict(effects: Sequence[EffectRecord], wanted: str, absent: str) -> Answer:
    """Agrees where a verdict is the wanted one and none is decided otherwise."""
    if not effects:
        return CANNOT_TELL, absent
    words = "; ".join(f"{one.arm} against {one.control} at {one.step}: {_told(one)}" for one in effects)
    decided = [effect.verdict for effect in effects if effect.verdict in ("higher", "lower", "equivalent")]
    if not decided:
        return CANNOT_TELL, words
    return (AGREES if all(verdict == wanted for verdict in decided) else DISAGREES), words


def _told(effect: EffectRecord) -> str:
    ratio = "no estimate" if effect.ratio is None else _signed(effect.ratio - 1)
    return f"{ratio}, {str(effect.verdict).replace('_', ' ')}"


def _compression_at_a_full_link(facts: Facts) -> Answer:
    pairs = [e for e, _ in facts.contrasts("compression") if facts.limit(e.control, e.step) == "link"]
    absent = _no_pair_at_a_full_link(facts, "pair of arms that differ in compression alone had its control")
    return _by_verdict(pairs, "higher", absent)


def _compression_elsewhere(facts: Facts) -> Answer:
    pairs = [e for e, _ in facts.contrasts("compression") if facts.limit(e.control, e.step) not in ("link", "unknown")]
    return _by_verdict(pairs, "lower", "no pair of arms differs in compression alone away from a full link")


def _tls_at_one_connection(facts: Facts) -> Answer:
    pairs = [effect for effect, step in facts.contrasts("tls") if step.connections == 1]
    if not pairs:
        return CANNOT_TELL, "no pair of arms differs in TLS alone at one connection"
    answers = [
        compare(TLS_AT_ONE_CONNECTION, e.verdict, e.ci_low, e.ci_high, TLS_ROUNDING, facts.experiment.verdict.margin)
        for e in pairs
    ]
    words = "; ".join(f"{e.arm}: {answer.because}" for e, answer in zip(pairs, answers, strict=True))
    said = [Agreement(answer.agreement) for answer in answers]
    if all(one == CANNOT_TELL for one in said):
        return CANNOT_TELL, words
    return (DISAGREES if DISAGREES in said else AGREES), words


def _tls_at_a_full_link(facts: Facts) -> Answer:
    pairs = [
        effect
        for effect, _ in facts.contrasts("tls")
        if facts.limit(effect.control, effect.step) == facts.limit(effect.arm, effect.step) == "link"
    ]
    absent = _no_pair_at_a_full_link(facts, "pair of arms that differ in TLS alone was together")
    return _by_verdict(pairs, "equivalent", absent)


def _tls_stops_scaling(facts: Facts) -> Answer:
    found: list[Answer] = []
    for control, arm in dict.fromkeys((effect.control, effect.arm) for effect, _ in facts.contrasts("tls")):
        plain, encrypted = facts.logs("tps", control), facts.logs("tps", arm)
        free = sorted(
            (
                step
                for step in steps_of(facts.experiment)
                if step.connections >= STOPPED_AT
                and step.id in plain
                and step.id in encrypted
                and facts.limit(control, step.id) != "link"
            ),
            key=lambda step: step.connections,
        )
        if len(free) < 2:
            continue
        low, high = free[0].id, free[-1].id
        without, with_tls = (facts.growth("tps", one, low, high) for one in (control, arm))
        words = f"from {low} to {high} {control} grew by {without.words}, {arm} by {with_tls.words}"
        if without.low is None or without.low - 1 < PLAIN_GROWS or with_tls.low is None or with_tls.high is None:
            found.append((CANNOT_TELL, f"{words}: growth of {_percent(PLAIN_GROWS)} without TLS is not shown"))
        elif with_tls.high - 1 <= FLAT:
            found.append((AGREES, words))
        else:
            found.append((DISAGREES if with_tls.low - 1 > FLAT else CANNOT_TELL, words))
    if not found:
        return CANNOT_TELL, f"no two loads of {STOPPED_AT} connections and more away from a full link"
    words = "; ".join(because for _, because in found)
    return _all([answer for answer, _ in found if answer != CANNOT_TELL]), words


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _signed(share: float) -> str:
    return f"{share * 100:+.1f} %".replace("-", "−")


def _bits_per_s(network: object) -> float | None:
    """The nominal speed of a network treatment; None where it is not shaped."""
    wanted = network.get("bandwidth") if isinstance(network, dict) else network
    return None if wanted is None else parse_bits_per_s(wanted)


CLAIMS: tuple[tuple[str, str, Callable[[Facts], Answer]], ...] = (
    ("N1", "a full link carries 97 % of its nominal speed (116 MiB/s at 1 Gb)", _full_link_carries_its_speed),
    ("N1", "once the link is full, more connections bring no more throughput", _full_link_is_flat),
    ("N2", "where the link is the limit, compression raises throughput", _compression_at_a_full_link),
    ("N2", "where it is not, compression costs throughput (about half at 10 Gb)", _compression_elsewhere),
    ("N3", "TLS costs about 10 % at one connection", _tls_at_one_connection),
    ("N3", "at the link's limit TLS costs nothing more", _tls_at_a_full_link),
    ("N3", "away from it throughput with TLS stops growing at 32 connections (OpenSSL 1.0)", _tls_stops_scaling),
)
"""(part, claim, test)."""
