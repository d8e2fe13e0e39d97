"""What study 4 concluded about networks, put to the test with this study's own effects and limits.

Only pairs of arms that differ in one treatment count, and only what was declared before the first run has a verdict.
Where the condition of a conclusion (a full link, a load above 32 connections) did not occur here, the answer is
"cannot tell", with what was there instead. Growth over connections is told from medians: it has no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from mydyno.hosts.link import parse_bits_per_s
from mydyno.model.contrasts import only_difference
from mydyno.model.experiment import Experiment, Step, steps_of
from mydyno.model.records import ConclusionRecord, EffectRecord, LimitRecord, RunSummary
from mydyno.stats.agreement import Agreement, compare

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
    """What a conclusion is tested with."""

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

    def medians(self, metric: str, arm: str) -> dict[str, float]:
        """{step: median over the valid runs of an arm}."""
        values: dict[str, list[float]] = {}
        for run in self.runs:
            for step, of_step in run.values.items() if run.valid and run.arm == arm else ():
                if metric in of_step and step not in run.invalid_steps:
                    values.setdefault(step, []).append(of_step[metric])
        return {step: median(found) for step, found in values.items()}


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
    for part, claim, test in CLAIMS:
        answer, because = test(facts)
        records.append(
            ConclusionRecord(study=STUDY, part=part, claim=claim, answer=Agreement(answer).value, because=because)
        )
    return tuple(records)


def _full_link_carries_its_speed(facts: Facts) -> Answer:
    """The most that any arm carried on each bandwidth: a link counts as full from 90 % on."""
    most: dict[float, tuple[float, str]] = {}
    for (arm, step), limit in facts.limits.items():
        speed = _bits_per_s(facts.experiment.arm(arm).treatments.get("network"))
        outside = facts.experiment.server.dsn is not None  # then the load's interface is sampled
        sent = facts.medians(f"network_{'rx' if outside else 'tx'}_bytes_per_s", arm).get(step)
        if limit.limit == "link" and speed and sent:
            most[speed] = max(most.get(speed, (0.0, "")), (sent * 8 / speed, f"{arm} at {step}"))
    if not most:
        return CANNOT_TELL, _no_full_link(facts)
    words = "; ".join(f"{where} sent {_percent(share)} of its nominal speed" for share, where in most.values())
    apart = max(abs(share / PUBLISHED_TRAFFIC_SHARE - 1) for share, _ in most.values())
    return (AGREES if apart <= TRAFFIC_TOLERANCE else DISAGREES), words


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
        tps = facts.medians("tps", arm.name)
        full = [step for step in steps_of(facts.experiment) if facts.limit(arm.name, step.id) == "link"]
        full = sorted((step for step in full if step.id in tps), key=lambda step: step.connections)
        if len(full) > 1 and full[0].workload == full[-1].workload:
            growth[f"{arm.name} from {full[0].connections} to {full[-1].connections} connections"] = (
                tps[full[-1].id] / tps[full[0].id] - 1
            )
    if not growth:
        return CANNOT_TELL, "no arm filled its link at two loads"
    words = "; ".join(f"{where}: {_signed(share)}" for where, share in growth.items())
    return (AGREES if all(abs(share) <= FLAT for share in growth.values()) else DISAGREES), words


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
        compare(TLS_AT_ONE_CONNECTION, e.ci_low, e.ci_high, TLS_ROUNDING, facts.experiment.verdict.margin)
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
    told: list[Answer] = []
    for control, arm in dict.fromkeys((effect.control, effect.arm) for effect, _ in facts.contrasts("tls")):
        plain, encrypted = facts.medians("tps", control), facts.medians("tps", arm)
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
        without, with_tls = plain[high] / plain[low] - 1, encrypted[high] / encrypted[low] - 1
        words = f"from {low} to {high} {control} grew by {_signed(without)}, {arm} by {_signed(with_tls)}"
        if without < PLAIN_GROWS:
            told.append((CANNOT_TELL, f"{words}: without TLS there is no growth to lose"))
        else:
            told.append((AGREES if with_tls <= FLAT else DISAGREES, words))
    if not told:
        return CANNOT_TELL, f"no two loads of {STOPPED_AT} connections and more away from a full link"
    words = "; ".join(because for _, because in told)
    decided = {answer for answer, _ in told} - {CANNOT_TELL}
    return (CANNOT_TELL if not decided else DISAGREES if DISAGREES in decided else AGREES), words


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
