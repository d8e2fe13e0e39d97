"""Which limit each arm met at each step: the link, the server's CPU, the load's CPU, or none of them.

Determined by utilisation over the measured window, never by the shape of a curve. A link is full when its interface
carried 90 % of what the timed transfer of the same run delivered, or of its bandwidth where a long latency hides that;
CPUs are full when 90 % of their time was busy; a load program is full when its busiest thread was on a CPU for 95 % of
the time. Shares of server and load are of all usable CPUs; the rest of the busy time belongs to kernel threads and
other programs. The host of an external server is not measured: if nothing on this host is full its CPUs may be the
limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.parts import Cell, Part, Table, glyph
from mydyno.document.result import StudyResult
from mydyno.hosts.network.link import FRAME_TO_PAYLOAD
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import LimitRecord, RunSummary
from mydyno.wording.numbers import percent

FULL = 0.90
THREAD_FULL = 0.95
Whose = Literal["server CPU", "load CPU", "others' CPU"]
OF_LOAD = ("driver_cpu_user_pct", "driver_cpu_system_pct")
NEEDED = ("cpu_user_pct", "cpu_system_pct", *OF_LOAD)
OF_SERVER = ("server_cpu_user_pct", "server_cpu_system_pct")
DIRECTIONS = {
    "server": (("tx", "to_load_bits_per_s"), ("rx", "to_server_bits_per_s")),
    "load": (("rx", "to_load_bits_per_s"), ("tx", "to_server_bits_per_s")),
}
"""{whose interface was sampled: (what it counts, what the timed transfer delivered in that direction)}"""
LIMITS = {"others' CPU": "other CPU"}


def limits_of(
    runs: Sequence[RunRecord], summaries: Sequence[RunSummary], steps: Sequence[Step], cpus: Mapping[str, float]
) -> tuple[LimitRecord, ...]:
    """One limit per arm and step, from the medians over its valid runs; arms without a proved link have none.

    `cpus` is the number of usable CPUs of each host group, of "" where there is one.
    """
    found = []
    least, most = min(cpus.values(), default=1), max(cpus.values(), default=1)
    number = f"{most:g}" if least == most else f"{least:g} to {most:g}"
    for arm in dict.fromkeys(run.arm for run in runs):
        for step in steps:
            used = [
                utilisation(run, summary.values.get(step.id, {}), step.id, cpus.get(run.host_group, most))
                for run, summary in zip(runs, summaries, strict=True)
                if run.arm == arm and summary.usable(step.id)
            ]
            shares = _medians([one for one in used if one])
            if shares:
                found.append(judge(arm, step, shares, number))
    return tuple(found)


def utilisation(run: RunRecord, values: Mapping[str, float], step: str, cpus: float) -> dict[str, float]:
    """Shares of 1: link, link_reached (1 or 0), cpu, server, load, thread; empty if the run has no proved link.

    server is absent if the server's process is not of this host, load if it came from clients.
    """
    link = next((evidence.facts for evidence in run.evidence if evidence.treatment == "network"), None)
    if link is None or any(name not in values for name in NEEDED):
        return {}
    carried = [
        values.get(f"network_{way}_bytes_per_s", 0.0) * 8 / (float(ceiling) * FRAME_TO_PAYLOAD)
        for way, timed in DIRECTIONS[link.get("side", "server")]
        if (ceiling := link.get("link_bits_per_s") or link.get(timed))
    ]
    if link.get("side") == "load" and OF_SERVER[0] in values:
        return {}  # the CPUs are those of the server's host (server.ssh), whose number is not known here
    drivers = [record.driver for record in run.steps if record.id == step]
    threads = [driver.busiest_thread_cpu_pct for driver in drivers]
    on_host = {"server": OF_SERVER} if OF_SERVER[0] in values else {}
    on_host |= {} if any(driver.clients for driver in drivers) else {"load": OF_LOAD}
    return {whose: sum(values[name] for name in names) / 100 / cpus for whose, names in on_host.items()} | {
        "link": max(carried, default=0.0),
        "link_reached": 1.0 if link.get("reached") and link.get("bandwidth") else 0.0,
        "cpu": (values["cpu_user_pct"] + values["cpu_system_pct"]) / 100,
        "thread": max((thread / 100 for thread in threads if thread is not None), default=0.0),
    }


def judge(arm: str, step: Step, shares: Mapping[str, float], cpus: int | str) -> LimitRecord:
    """The limit that these shares name."""
    limit, met = _limit(shares)
    rounded = {name: round(share, 4) for name, share in shares.items()}
    return LimitRecord(arm=arm, step=step.id, limit=limit, met=met, shares=rounded, cpus=str(cpus))


def _limit(
    shares: Mapping[str, float],
) -> tuple[Whose | Literal["link", "none"], Literal["link", "cpus", "thread", ""]]:
    if shares["link"] >= FULL and shares["link_reached"] >= 0.5:
        return "link", "link"
    if shares["cpu"] >= FULL:
        server, load = shares.get("server", 0.0), shares.get("load", 0.0)
        others = max(shares["cpu"] - server - load, 0.0)
        most = max(server, load, others)
        return ("server CPU" if server == most else "load CPU" if load == most else "others' CPU"), "cpus"
    return ("load CPU", "thread") if shares["thread"] >= THREAD_FULL else ("none", "")


def _medians(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: median(one[name] for one in found) for name in found[0]} if found else {}


def part(result: StudyResult) -> Part | None:
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
            told["other"] = limit.others
            if limit.met == "thread":
                told["busiest load thread"] = shares["thread"]
            below = ", ".join(f"{name} {percent(share)}" for name, share in told.items())
            cells.append(Cell(LIMITS.get(limit.limit, limit.limit), "word", below=below))
        rows.append(cells)
    several = len(result.workloads) > 1
    head = [", ".join((step.workload, step.level)) if several else step.level for step in result.steps]
    note = (
        "Link: share of what the timed transfer delivered. Server, load, other: shares of all CPUs of this host; other "
        "is the kernel's own threads and all other programs."
    )
    if not any("server" in limit.shares for limit in found.values()):
        note += " The server's host is not measured."
    table = Table("From utilisation", ["arm", *head], rows, note)
    counts = Counter(LIMITS.get(limit.limit, limit.limit) for limit in found.values()).most_common()
    says = ", ".join(f"{name} in {count} of {len(found)}" for name, count in counts)
    return Part(id="limits", heading="What limited each arm", short="Limits", folded=True, says=says, body=[table])


def _analyse(study: Examined) -> tuple[LimitRecord, ...]:
    return limits_of(study.every_record, study.every_run, study.experiment.resolved_steps, study.cpus)


ANALYSIS = Analysis(part=part, stored="limits", analyse=_analyse)
