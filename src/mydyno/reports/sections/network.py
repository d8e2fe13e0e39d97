"""Experiments on the network: traffic against the link's ceiling, the cost of a transaction, parts of
published studies.

Absent from the page where no arm has a network, TLS or compression of its own. The ceiling is what the timed transfer
of the same runs delivered, as frames; an arm whose bandwidth this host could not reach has none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from mydyno.document.charts.timeline import timeline_chart
from mydyno.document.result import StudyResult
from mydyno.document.section import (
    Cell,
    Figure,
    FigureGroup,
    Section,
    Table,
    glyph,
    legend,
    render,
)
from mydyno.language import agreed
from mydyno.model.definition.contrasts import only_difference
from mydyno.model.stored.summary import ConclusionRecord, EffectRecord
from mydyno.reports.envelopes import Panel
from mydyno.reports.sections.over_time import time_series
from mydyno.reports.sections.sweep import metric_figure
from mydyno.reports.telemetry import read_one
from mydyno.results.limits import FRAME_TO_PAYLOAD
from mydyno.results.published.studies import StudyPart, published_studies
from mydyno.wording.numbers import DisplayUnit, display_unit, percent, percent_range, signed_percent
from mydyno.wording.published import SIGNED, fact_clauses
from mydyno.wording.stored_result import ReportStep
from mydyno.wording.verdict_table import SYMBOLS, WORDS, merit

TREATMENTS = ("network", "compression", "tls")
TRAFFIC = ("host", "network_tx_bytes_per_s")
TRAFFIC_OF_LOAD = ("host", "network_rx_bytes_per_s")
"""What comes from an external server: its own interface is not sampled, that of the load is."""
PRICES = ("network_bytes_per_transaction", "server_cpu_us_per_transaction", "driver_cpu_us_per_transaction")
POINTS = 45
UNSHAPED, LOOPBACK, OUTSIDE = "not shaped", "loopback", "as it is"
"""Links without a bandwidth of their own; the second is no link, and no interface that is sampled sees its bytes; the
third leads to an external server."""
NEAR = 8
"""A ceiling beyond so many times the greatest value would flatten everything below it: it is said, not drawn."""
LIMITS = {
    "link": "link",
    "server CPU": "server CPU",
    "load CPU": "load CPU",
    "others' CPU": "other CPU",
    "none": "none",
}
SHARES = {"link": "link", "server": "server", "load": "load", "other": "other"}


@dataclass(frozen=True)
class Traffic:
    """What the server's interface sent over time, and what it could send at most."""

    panels: Mapping[str, Panel]
    durations_s: Mapping[str, float]
    ceilings: Mapping[str, float]
    """{arm: bytes per second of frames}; absent if the bandwidth was not reached."""


def build(result: StudyResult) -> list[Section]:
    """The sections; empty for an experiment that leaves the network alone."""
    experiment = result.study.experiment
    if not any(name in arm.treatments for arm in experiment.arms for name in TREATMENTS) or not result.runs:
        return []
    panels, durations = read_one(result, _traffic(result), POINTS)
    traffic = Traffic(panels, durations, _ceilings(result))
    sections = [_overview(result, traffic)]
    known = published_studies()
    for study in dict.fromkeys(one.study for one in result.summary.conclusions):
        for part in known[study].parts if study in known else ():
            contrasts = _contrasts(result, part.treatment)
            conclusions = [one for one in result.summary.conclusions if (one.study, one.part) == (study, part.name)]
            if contrasts and conclusions:
                sections.append(_part(result, traffic, part, contrasts, conclusions))
    return sections


def _overview(result: StudyResult, traffic: Traffic) -> Section:
    groups = [*_traffic_groups(result, traffic, None)]
    for workload in result.workloads:
        steps = result.steps_of_workload(workload)
        linked = any(_bandwidth(result, arm) != LOOPBACK for arm in result.styles)
        wanted = (*PRICES, _traffic(result)[1]) if linked else PRICES
        figures = [figure for metric in wanted if (figure := metric_figure(result, metric, workload, steps))]
        groups.append(FigureGroup(f"The cost of a transaction, and the traffic: {workload}", figures))
    return Section(
        "network",
        "Network: traffic, bytes and CPU per transaction",
        "Network",
        render(
            "network.html",
            intro=f"Traffic is what {_whose_interface(result)}, headers included. CPU per transaction is that of "
            "the server's and the load's processes; the kernel may charge the processing of a packet to "
            "either side.",
            conclusions=[],
            tables=[table] if (table := _limits_table(result)) else [],
            legend=legend(result, with_copy=True),
            groups=[group for group in groups if group.figures],
        ),
    )


def _limits_table(result: StudyResult) -> Table | None:
    """Which limit each arm met at each step, with the shares that say so."""
    found = {(limit.step, limit.arm): limit for limit in result.summary.limits}
    if not found:
        return None
    rows: list[list[str | Cell]] = []
    for arm, style in result.styles.items():
        cells: list[str | Cell] = [Cell(arm, "arm", glyph(style))]
        for step in result.steps:
            limit = found.get((step.id, arm))
            if limit is None:
                cells.append(Cell("–"))
                continue
            shares = limit.shares
            told: dict[str, float] = {name: shares[name] for name in ("link", "server", "load") if name in shares}
            told["other"] = max(shares["cpu"] - shares.get("server", 0.0) - shares["load"], 0.0)
            below = ", ".join(f"{SHARES[name]} {percent(share)}" for name, share in told.items())
            cells.append(Cell(LIMITS[limit.limit], "word", below=below))
        rows.append(cells)
    several = len(result.workloads) > 1
    head = [", ".join((step.workload, step.level)) if several else step.level for step in result.steps]
    return Table(
        "What limited each arm, from utilisation",
        ["arm", *head],
        rows,
        "Link: share of what the timed transfer delivered. Server, load, other: shares of all CPUs of this "
        "host; other is the kernel's own threads and all other programs.",
    )


def _part(
    result: StudyResult,
    traffic: Traffic,
    part: StudyPart,
    contrasts: Sequence[EffectRecord],
    conclusions: Sequence[ConclusionRecord],
) -> Section:
    arms = {name for effect in contrasts for name in (effect.arm, effect.control)}
    groups = []
    for workload in result.workloads:
        steps = result.steps_of_workload(workload)
        where = f":{part.name}"
        metrics = dict.fromkeys((result.summary.primary, "tps", *PRICES))
        drawn = [figure for one in metrics if (figure := metric_figure(result, one, workload, steps, arms, where))]
        groups.append(FigureGroup(f"Throughput and cost against connections: {workload}", drawn))
    groups += _traffic_groups(result, traffic, arms, part.name)
    return Section(
        f"network-{part.name.lower()}",
        part.title,
        part.name,
        render(
            "network.html",
            intro=part.text + " What the study concluded, tested against this study's own effects and limits.",
            conclusions=[(SIGNED[one.answer], _claim(one), agreed(fact_clauses(one.facts))) for one in conclusions],
            tables=[_contrast_table(result, contrasts)],
            legend=legend(result, with_copy=False, arms=arms),
            groups=[group for group in groups if group.figures],
        ),
    )


def _claim(one: ConclusionRecord) -> str:
    claim = one.claim
    return claim[:1].upper() + claim[1:]


def _contrast_table(result: StudyResult, contrasts: Sequence[EffectRecord]) -> Table:
    """The verdict of each pair at each step."""
    pairs = list(dict.fromkeys((effect.arm, effect.control) for effect in contrasts))
    by_place = {(effect.step, effect.arm, effect.control): effect for effect in contrasts}
    rows: list[list[str | Cell]] = []
    for step in result.steps:
        cells = [_verdict_cell(result, by_place.get((step.id, *pair))) for pair in pairs]
        rows.append([", ".join((step.workload, step.level)), *cells])
    head = ["load", *(f"{arm} against {control}" for arm, control in pairs)]
    return Table(
        f"{result.metric_name(result.summary.primary)} of each pair, with its 95 % interval",
        head,
        rows,
    )


def _verdict_cell(result: StudyResult, effect: EffectRecord | None) -> Cell:
    if effect is None or effect.verdict is None:
        return Cell("–")
    text = "no estimate" if effect.ratio is None else signed_percent(effect.ratio - 1)
    below = WORDS[effect.verdict]
    if effect.ci_low is not None and effect.ci_high is not None:
        below = ", ".join((below, percent_range(effect.ci_low - 1, effect.ci_high - 1)))
    mark = Markup('<span class="symbol" aria-hidden="true">{}</span>').format(SYMBOLS[effect.verdict])
    return Cell(text, f"verdict {merit(result, effect)}", mark, below)


def _contrasts(result: StudyResult, treatment: str) -> list[EffectRecord]:
    """Effects with a verdict on the primary metric between arms that differ in this treatment alone."""
    experiment = result.study.experiment
    return [
        effect
        for effect in result.effects(result.summary.primary)
        if effect.verdict and only_difference(experiment.arm(effect.arm), experiment.arm(effect.control)) == treatment
    ]


def _traffic_groups(
    result: StudyResult, traffic: Traffic, arms: Collection[str] | None, where: str = ""
) -> list[FigureGroup]:
    """Per workload a row of pictures for each bandwidth, one per level, with that bandwidth's ceiling."""
    by_bandwidth: dict[str, list[str]] = {}
    for arm in result.styles:
        if (arms is None or arm in arms) and _bandwidth(result, arm) != LOOPBACK:
            by_bandwidth.setdefault(_bandwidth(result, arm), []).append(arm)
    groups = []
    for workload in result.workloads:
        figures = [
            figure
            for bandwidth, of_bandwidth in by_bandwidth.items()
            for step in result.steps_of_workload(workload)
            if (figure := _traffic_figure(result, traffic, step, bandwidth, of_bandwidth, where))
        ]
        groups.append(FigureGroup(f"Traffic over time against the link's ceiling: {workload}", figures))
    return groups


def _traffic_figure(
    result: StudyResult, traffic: Traffic, step: ReportStep, bandwidth: str, arms: Collection[str], where: str
) -> Figure | None:
    panel = traffic.panels.get(step.id)
    series = time_series(result, panel, POINTS, arms=arms) if panel else []
    values = [value for one in series for value in one.high or () if value is not None]
    if not values:
        return None
    known = [traffic.ceilings[arm] for arm in arms if arm in traffic.ceilings]
    ceiling = median(known) if known else None
    near = ceiling is not None and ceiling < NEAR * max(values)
    unit = display_unit(_traffic(result)[1], max(values))
    window = result.summary.windows.get(step.id)
    words = _unbounded(bandwidth) if ceiling is None else f"ceiling {unit.text(ceiling)}"
    label = unit.label if near or not words else f"{unit.label} · {words}"
    chart = timeline_chart(
        f"traffic:{bandwidth}:{step.id}{where and f':{where}'}",
        ", ".join((_link_name(bandwidth), step.level)),
        (
            f"Bytes per second that {_whose_interface(result)}, {step.workload} at {step.level}: median of each "
            f"arm's runs, with the range of all its runs as a band. {words}"
        ).rstrip(),
        DisplayUnit(unit.divisor, label),
        series,
        traffic.durations_s[step.id],
        (window.from_s, window.to_s) if window else None,
        ceiling=(ceiling, words) if near and ceiling is not None else None,
    )
    return Figure([Markup(chart)])


def _traffic(result: StudyResult) -> tuple[str, str]:
    return TRAFFIC if result.study.experiment.server.dsn is None else TRAFFIC_OF_LOAD


def _whose_interface(result: StudyResult) -> str:
    outside = result.study.experiment.server.dsn is not None
    return "the load's interface received" if outside else "the server's interface sent"


def _link_name(bandwidth: str) -> str:
    return bandwidth


def _unbounded(bandwidth: str) -> str:
    """Why there is no ceiling; empty if none was asked for."""
    return "" if bandwidth in (UNSHAPED, OUTSIDE) else f"{bandwidth} not reached here"


def _bandwidth(result: StudyResult, arm: str) -> str:
    network = result.study.experiment.arm(arm).treatments.get("network")
    named = network.get("bandwidth") if isinstance(network, dict) else network
    outside = result.study.experiment.server.dsn is not None
    return str(named) if named else OUTSIDE if outside else UNSHAPED if network is not None else LOOPBACK


def _ceilings(result: StudyResult) -> dict[str, float]:
    """{arm: what its link delivered, as frames}, of arms whose link reached its bandwidth in most of their runs."""
    found: dict[str, list[float]] = {}
    reached: dict[str, list[bool]] = {}
    for run in result.runs:
        for evidence in run.evidence:
            facts = evidence.facts
            if evidence.treatment == "network" and facts.get("bandwidth") and facts.get("to_load_bits_per_s"):
                found.setdefault(run.arm, []).append(facts["to_load_bits_per_s"] / 8 * FRAME_TO_PAYLOAD)
                reached.setdefault(run.arm, []).append(bool(facts.get("reached")))
    return {arm: median(rates) for arm, rates in found.items() if median(reached[arm]) >= 0.5}
