"""Experiments on the network: the cost of a transaction, and the traffic against the load with the links' ceilings.

Absent from the page where no arm has a network, TLS or compression of its own. The ceiling is what the timed transfer
of the same runs delivered, as frames; a bandwidth that this host could not reach has none, and is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from mydyno.document.drawing import FAR
from mydyno.document.parts import FigureGroup, Figures, Note, Part, legend
from mydyno.document.result import StudyResult
from mydyno.hosts.network.link import FRAME_TO_PAYLOAD
from mydyno.model.stored.summary import StepLevel
from mydyno.reports.sections.metrics import metric_figure

TREATMENTS = ("network", "compression", "tls")
PRICES = ("network_bytes_per_transaction", "server_cpu_us_per_transaction", "driver_cpu_us_per_transaction")


def build(result: StudyResult) -> Part | None:
    """The section; None for an experiment that leaves the network alone."""
    experiment = result.study.experiment
    if not any(name in arm.treatments for arm in experiment.arms for name in TREATMENTS) or not result.runs:
        return None
    outside = experiment.server.dsn is not None  # its own interface is not sampled, that of the load is
    drawn: dict[str, dict[str, float]] = {metric: {} for metric in PRICES}
    links, traffic = _links(result), f"network_{'rx' if outside else 'tx'}_bytes_per_s"
    if outside or any("network" in arm.treatments for arm in experiment.arms):  # no interface sees the loopback's bytes
        drawn[traffic] = {name: ceiling for name, ceiling in links.items() if ceiling is not None}
    groups = []
    for workload in result.workloads:
        steps = result.steps_of_workload(workload)
        figures = [metric_figure(result, metric, workload, steps, ceilings) for metric, ceilings in drawn.items()]
        heading = f"The cost of a transaction, and the traffic: {workload}"
        missing = _missing(result, traffic, steps, links)
        groups.append(FigureGroup(heading, [one for one in figures if one], text=missing))
    intro = (
        f"Traffic is what the {'load' if outside else 'server'}'s interface {'received' if outside else 'sent'}, with "
        "headers; dashed lines are what the links of a bandwidth delivered in a timed transfer, where it "
        "was reached and is near the values. CPU per transaction is that of the "
        "server's and the load's processes; the kernel may charge the processing of a packet to either side."
    )
    return Part(
        id="network", heading="Network: traffic, bytes and CPU per transaction", folded=True,
        body=[Note(intro, "intro"), Figures(groups, legend(result, with_copy=True))],
    )  # fmt: skip


def _links(result: StudyResult) -> dict[str, float | None]:
    """{bandwidth: what its links delivered, as frames}; None for one that most runs did not reach."""
    found: dict[str, list[tuple[float, bool]]] = {}
    for run in result.runs:
        for facts in (one.facts for one in run.evidence if one.treatment == "network" and one.facts.get("bandwidth")):
            timed = found.setdefault(str(facts["bandwidth"]), [])
            if delivered := facts.get("link_bits_per_s") or facts.get("to_load_bits_per_s"):
                timed.append((delivered / 8 * FRAME_TO_PAYLOAD, bool(facts.get("reached"))))
    return {
        bandwidth: median(delivered for delivered, _ in of)
        if of and fmean(reached for _, reached in of) >= 0.5
        else None
        for bandwidth, of in found.items()
    }


def _missing(result: StudyResult, metric: str, steps: Sequence[StepLevel], links: Mapping[str, float | None]) -> str:
    """The bandwidths that have no line in the chart of the traffic; empty where each has one, or there is no chart."""
    values = [value for step in steps for _, value, _ in result.values(metric, step.id)]
    if not values:
        return ""
    unreached = [name for name, ceiling in links.items() if ceiling is None]
    far = [name for name, ceiling in links.items() if ceiling is not None and ceiling >= FAR * max(values)]
    reasons = ((unreached, "not reached in a timed transfer"), (far, "far above the traffic"))
    words = [f"{', '.join(names)} ({why})" for names, why in reasons if names]
    return f"Without a line: {'; '.join(words)}." if words else ""
