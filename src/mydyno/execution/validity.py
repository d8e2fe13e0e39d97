"""A run, or one load level of it, that fails one of these checks is invalid.

It is kept and shown, with the reason, but not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mydyno.execution.environments.probe import busy_pct
from mydyno.hosts.limits import usable_cpus
from mydyno.language import agreed
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.definition.specs import ValiditySpec
from mydyno.model.stored.reasons import NOTHING_ENDED, Reason, joined
from mydyno.model.stored.records import (
    ChangePoint,
    DriverFinding,
    DriverResult,
    Evidence,
    SliceRecord,
    StepRecord,
    WindowSteadiness,
)
from mydyno.results.values.doubts import doubts_of, missed
from mydyno.stats.steady import StateSeries, judge, mser5
from mydyno.store.samples import Sample
from mydyno.workloads.reconcile import disagreements

STATES = (
    ("innodb_checkpoint_age_bytes", "innodb_checkpoint_max_age_bytes"),
    ("innodb_dirty_pages_pct", None),
    ("server_rss_bytes", None),
)
"""The server's state and the metric that holds its capacity, where it has one."""


def judge_step(
    samples: Sequence[Sample], started_unix_ns: int, step: Step, margin: float, instance: int = 1
) -> WindowSteadiness:
    """Steadiness of the window, with the MSER-5 cut of the whole step."""
    driver, server = f"driver:{instance}", f"instance:{instance}"
    whole = _series(samples, driver, "tps", started_unix_ns, 0.0, step)
    window = _series(samples, driver, "tps", started_unix_ns, step.warmup_s, step)
    cut = mser5(whole)
    states = []
    for name, capacity in STATES:
        values = _series(samples, server, name, started_unix_ns, step.warmup_s, step)
        if name == "innodb_dirty_pages_pct":
            scale: float | None = 100.0
        else:
            limits = _series(samples, server, capacity, started_unix_ns, step.warmup_s, step) if capacity else []
            scale = limits[-1] if limits else None
        if values:
            states.append(StateSeries(name, values, scale))
    verdict = judge(window, margin, cut, states)
    return WindowSteadiness(
        steadiness=verdict.steadiness.value,
        mser5_cut_s=cut.cut,
        mser5_beyond_half=cut.beyond_half,
        mser5_trustworthy=cut.trustworthy,
        samples=len(whole),
        drift=round(verdict.drift.change, 6),
        change_points=tuple(
            ChangePoint(at_s=point.at, change=round(point.change, 6)) for point in verdict.change_points
        ),
        cycles=verdict.cycles,
        reasons=verdict.reasons,
    )


def _series(
    samples: Sequence[Sample], scope: str, metric: str, started_unix_ns: int, from_s: float, step: Step
) -> list[float]:
    begin = started_unix_ns + from_s * 1e9
    end = started_unix_ns + (step.warmup_s + step.measure_s + 0.5) * 1e9
    return [
        sample.value
        for sample in samples
        if sample.scope == scope and sample.metric == metric and begin < sample.unix_ns <= end
    ]


OF_THE_ARM = ("unfinished", "dropped")
"""Rules of dynoload that show what the server did."""
OF_THE_HOST = ("lag", "cpu_wait", "network")
"""Rules that show what the host did to the driver."""
OF_THE_DRIVER = ("cpu",)
"""Rules that show that the driver was measured, not the server."""
WITH_BOUNDS = ("missing_rows", "ignored_errors")
"""Rules that not_found and ignored_errors apply, with bounds of their own."""
ELSEWHERE = (*OF_THE_ARM, *OF_THE_HOST, *OF_THE_DRIVER, *WITH_BOUNDS)
VARIABLES_HINT = "the server rounds, clips or ignores the value: set the one that it has, or leave the variable out"


@dataclass(frozen=True)
class RunFacts:
    """A whole run."""

    bounds: ValiditySpec
    evidence: Sequence[Evidence]
    swapped_bytes: int | None
    """Swapped in and out while the run lasted; None if the kernel does not report it."""
    servers_killed: int = 0
    """Servers of the run that the kernel's log names as killed for lack of memory."""


@dataclass(frozen=True)
class StepFacts:
    """One step of a run."""

    bounds: ValiditySpec
    driver: DriverResult
    whole_s: float
    """Warm-up and measured window."""
    cpus: float
    """CPUs that the driver may use."""
    throttled: Mapping[str, float] = field(default_factory=dict)
    """{file of a CPU quota of mydyno's own control groups: share of its periods in which it was used up}."""
    disagreements: Sequence[str] = field(default_factory=tuple)
    """Where the server's counters and the driver's differ."""
    step: Step | None = None
    """Its definition, where the rule on what it found applies."""
    steadiness: str = "undecided"
    steady_reasons: Sequence[str] = field(default_factory=tuple)


def unproved(facts: RunFacts) -> Reason | None:
    """A treatment that is not verified to be in force. Fails where any evidence does not hold."""
    return unproved_by(facts.evidence)


def unproved_by(evidence: Sequence[Evidence]) -> Reason | None:
    """The reason for which these treatments are not proved; None if all of them are."""
    found = [f"{one.treatment}: {one.text}" for one in evidence if not one.holds]
    return Reason(check="unproved", text="; ".join(found)) if found else None


def refused_variables(evidence: Sequence[Evidence]) -> str:
    """Which server variables are not as they were set; empty if all are. No further block would change that."""
    return "; ".join(one.text for one in evidence if one.treatment == "variables" and not one.holds)


def out_of_memory(facts: RunFacts) -> Reason | None:
    """The kernel ended a server of the run for lack of memory.

    What it ended besides, by the host's count (vmstat's oom_kill), was no part of the run: a warning names it. Fails
    where the kernel's log names one of the run's servers.
    """
    if not facts.servers_killed:
        return None
    text = agreed(f"the kernel killed {facts.servers_killed} servers of the run for lack of memory")
    return Reason(check="out_of_memory", text=text)


def others_killed(kills: int | None, of_the_run: int = 0) -> tuple[str, ...]:
    """A warning where the host's count of such kills grew by more than the run's own."""
    others = (kills or 0) - of_the_run
    if others <= 0:
        return ()
    return (agreed(f"the kernel killed {others} processes of this host for lack of memory meanwhile"),)


def swap(facts: RunFacts) -> Reason | None:
    """The host swapped: the measurement then shows memory pressure, not the treatment. Fails where more was swapped in
    and out than validity.swap_bytes.
    """
    if facts.swapped_bytes is None or facts.swapped_bytes <= facts.bounds.swap_bytes:
        return None
    bound = format_bytes(facts.bounds.swap_bytes)
    text = f"the host swapped {format_bytes(facts.swapped_bytes)} during the run (bound {bound})"
    return Reason(check="swap", text=text)


def errors(facts: StepFacts) -> Reason | None:
    """Errors that reached the driver as errors. Fails at the first error or lost connection."""
    if not facts.driver.errors and not facts.driver.reconnects:
        return None
    text = f"{facts.driver.errors} errors and {facts.driver.reconnects} lost connections in the measured window"
    return Reason(check="errors", text=text)


def ignored_errors(facts: StepFacts) -> Reason | None:
    """Deadlocks and lock time-outs that the driver retries: with too many of them, another workload was measured. Fails
    above validity.ignored_errors_per_transaction.
    """
    share = facts.driver.ignored_errors / max(facts.driver.transactions, 1)
    bound = facts.bounds.ignored_errors_per_transaction
    if share <= bound:
        return None
    text = f"{facts.driver.ignored_errors}, {share:.3g} per transaction (bound {bound:g})"
    return Reason(check="ignored_errors", text=text)


def counters(facts: StepFacts) -> Reason | None:
    """The operations counted by the driver must agree with the server's counters. Fails where the two differ beyond
    tolerance.
    """
    return Reason(check="counters", text="; ".join(facts.disagreements)) if facts.disagreements else None


def not_found(facts: StepFacts) -> Reason | None:
    """Rows or keys that are not there: a load that finds nothing does less work than the one that was to be measured.

    The data of `oltp_*`, `kv_*` and sysbench's loads are mydyno's own, so that every statement and get must find
    something, except for the share that `options.hit_ratio` leaves out. The rows of your own SQL are yours: this check
    fails where none of its reads found any row. An experiment on evictions allows misses by `validity.not_found`, up to
    100%. Fails where a larger share than validity.not_found was looked for in vain.
    """
    if facts.step is None:
        return None
    share, words = missed(facts.step, facts.driver.whole)
    bound = facts.bounds.not_found
    return Reason(check="not_found", text=f"{words} (bound {bound:.0%})") if share > bound else None


def driver_health(facts: StepFacts) -> Reason | None:
    """The driver's own checks of its result: wrong values, another share of hits, other statements than the server
    counted.

    What the server did to a load at a rate (unfinished, dropped) is the arm's failure, and what a busy host did to the
    driver (lag, cpu_wait, network) is a warning: neither fails this check. A saturated driver fails driver_cpu, missing
    rows fail not_found, and ignored errors fail ignored_errors. Fails where the driver reports its result as invalid,
    by any other rule.
    """
    driver = facts.driver
    if driver.health != "invalid":
        return None
    texts = [one.text for one in driver.findings if one.level == "invalid" and one.rule not in ELSEWHERE]
    if driver.findings and not texts:
        return None
    return Reason(check="driver_health", text=f"{driver.driver}: {'; '.join(texts or driver.health_reasons)}")


def driver_cpu(facts: StepFacts) -> Reason | None:
    """If the driver uses all the CPU time that it may use, the driver was measured, not the server.

    With client hosts each of them is judged by its own CPUs: one that is full delays its part of the load, however idle
    the others are. Fails where the driver's CPU time is above validity.driver_cpu of the CPUs that it may use, on any
    client host, or where one of its threads was saturated: of slices, over all of a load level's slices.
    """
    busy = [one.text for one in facts.driver.findings if one.level == "invalid" and one.rule in OF_THE_DRIVER]
    busy = busy or (_busy_clients(facts) if facts.driver.clients else _busy_driver(facts))
    return Reason(check="driver_cpu", text="; ".join(busy)) if busy else None


def _busy_driver(facts: StepFacts) -> list[str]:
    driver, bound = facts.driver, facts.bounds.driver_cpu
    if driver.cpu_user_s is None or driver.cpu_system_s is None or facts.whole_s <= 0:
        return []
    share = (driver.cpu_user_s + driver.cpu_system_s) / (facts.whole_s * facts.cpus)
    words = f"it used {share:.0%} of the {facts.cpus:g} CPUs that it may use (bound {bound:.0%})"
    return [words] if share > bound else []


def _busy_clients(facts: StepFacts) -> list[str]:
    bound = facts.bounds.driver_cpu
    full = []
    for client in facts.driver.clients:
        available_s = facts.whole_s * (client.cpus or 0)
        share = (client.cpu_user_s + client.cpu_system_s) / available_s if available_s > 0 else 0.0
        busy = max(share, (client.busy_pct or 0.0) / 100)
        if busy > bound:
            full.append(f"client {client.name} was {busy:.0%} busy (bound {bound:.0%})")
    return full


def throttled(facts: StepFacts) -> Reason | None:
    """A CPU quota of the container or unit that mydyno runs in stopped server and load together.

    A quota that an arm's own control group has (`cgroup.cpu_quota`) is the treatment, and is not meant. Fails where the
    quota was used up in a larger share of its periods than validity.throttled, during the load.
    """
    bound = facts.bounds.throttled
    found = [
        f"the CPU quota in {path} was used up in {share:.0%} of its periods (bound {bound:.0%})"
        for path, share in facts.throttled.items()
        if share > bound
    ]
    return Reason(check="throttled", text="; ".join(found)) if found else None


def steady(facts: StepFacts) -> Reason | None:
    """The mean of a window is biased if the server still warms up. Design blocks.

    Not steady: MSER-5 would remove more than half of the window; or its drift (slope × length of the log, with an
    interval widened for autocorrelation) is not below half the margin; or a change of level exceeds the margin and four
    standard errors; or checkpoint age, dirty pages or resident memory moved by more than their margin without three
    whole cycles. With "strict" an arm's stalls are excluded, too. Fails where the window is not steady and
    validity.steady is strict. An undecided window is used and reported.
    """
    if facts.steadiness != "not steady" or facts.bounds.steady != "strict":
        return None
    return Reason(check="steady", text="; ".join(facts.steady_reasons))


RUN_RULES = (unproved, out_of_memory, swap)
"""Each takes RunFacts and returns the reason, or None."""
STEP_RULES = (errors, ignored_errors, counters, not_found, driver_health, driver_cpu, throttled, steady)
"""Each takes StepFacts and returns the reason, or None."""
HOST_RULES = (driver_cpu, throttled)
"""The rules of STEP_RULES about the host: applied once where a step loads several instances."""
INSTANCE_RULES = tuple(rule for rule in STEP_RULES if rule not in HOST_RULES)
"""The rules of STEP_RULES that are applied to each instance."""
SLICES_RULES = (counters, not_found, driver_health, driver_cpu, throttled)
"""The rules of STEP_RULES that are applied to the sum of a step's slices: errors are the arm's failure there, and each
slice is judged by what the host was in it."""


def run_reasons(facts: RunFacts) -> list[Reason]:
    """Why the whole run is invalid; empty if it is valid."""
    return [reason for rule in RUN_RULES if (reason := rule(facts)) is not None]


def no_valid_step(steps: Sequence[StepRecord]) -> list[Reason]:
    """Why a run is invalid whose steps all are; empty if one is not: an arm that failed at one has a result there."""
    if not steps or not all(step.reasons for step in steps):
        return []
    return [Reason(check="no_valid_step", text=joined(dict.fromkeys(one for step in steps for one in step.reasons)))]


def step_reasons(
    facts: StepFacts, rules: tuple[Callable[[StepFacts], Reason | None], ...] = STEP_RULES
) -> list[Reason]:
    """Why one step is invalid; empty if it is valid."""
    return [reason for rule in rules if (reason := rule(facts)) is not None]


MOST_START_SPREAD_S = 1.0
"""Drivers that began further apart than one sample did not load at the same time."""
MOST_UNFINISHED, MOST_DROPPED = 0.01, 0.05
"""Shares of a load at a rate above which the arm failed: those at which dynoload calls a run invalid."""
UNFINISHED = "it did not keep up: over 1 % of the transactions had not ended when the load was over"
DROPPED = "it did not keep up: over 5 % of the transactions were given up as late"
OF_RULE = {"unfinished": UNFINISHED, "dropped": DROPPED}
"""Words for OF_THE_ARM; without numbers, so that blocks with the same failure are counted together."""

WORTH_KNOWING = 0.01
"""From this share on, writes that changed no row and reads that found nothing are a warning."""


def judged(experiment: Experiment, step: Step, record: StepRecord, samples: Sequence[Sample]) -> StepRecord:
    """The record with its steadiness and the validity checks that failed for this step."""

    record = _with_busy_clients(record, step, samples)

    def facts(driver: DriverResult, counters: dict[str, float], steady: WindowSteadiness) -> StepFacts:
        return StepFacts(
            bounds=experiment.validity,
            driver=driver,
            whole_s=step.warmup_s + step.measure_s,
            cpus=usable_cpus().amount,
            throttled=record.throttled,
            disagreements=disagreements(
                step.workload, driver.whole, counters, shared=experiment.server.dsn is not None
            ),
            step=step,
            steadiness=steady.steadiness,
            steady_reasons=steady.reasons,
        )

    def steadiness(instance: int, started_unix_ns: int) -> WindowSteadiness:
        return judge_step(samples, started_unix_ns, step, experiment.verdict.margin, instance)

    parts, windows = [], {}
    for part in record.instances:
        steady = steadiness(part.instance, part.started_unix_ns)
        windows[part.instance] = steady
        closed = step_reasons(facts(part.driver, part.server_counters, steady), INSTANCE_RULES)
        own = tuple(reason.model_copy(update={"instance": part.instance}) for reason in closed)
        parts.append(part.model_copy(update={"steady": steady, "reasons": own}))
    steady = _least_steady(windows) if parts else steadiness(1, record.started_unix_ns)
    reasons = [reason for part in parts for reason in part.reasons]
    reasons += step_reasons(facts(record.driver, record.server_counters, steady), HOST_RULES if parts else STEP_RULES)
    if parts and record.start_spread_s > MOST_START_SPREAD_S:
        text = f"the drivers began {record.start_spread_s:.1f} s apart"
        reasons.append(Reason(check="start_spread", text=text))
    failed = failure_of(record.driver, experiment.validity)
    return record.model_copy(
        update={
            "steady": steady,
            "valid": not reasons and not failed,
            "reasons": tuple(reasons),
            "warnings": step_warnings(step, record.driver),
            "failed": failed,
            "instances": tuple(parts),
        }
    )


def _with_busy_clients(record: StepRecord, step: Step, samples: Sequence[Sample]) -> StepRecord:
    """The record with the CPU use of each client host in the measured window."""
    if not record.driver.clients:
        return record
    begin_ns = record.started_unix_ns + round(step.warmup_s * 1e9)
    end_ns = begin_ns + round(step.measure_s * 1e9)
    busy = busy_pct(samples, [(begin_ns, end_ns)])
    clients = [client.model_copy(update={"busy_pct": busy.get(client.name)}) for client in record.driver.clients]
    return record.model_copy(update={"driver": record.driver.model_copy(update={"clients": tuple(clients)})})


def failure_of(driver: DriverResult, validity: ValiditySpec) -> str:
    """Why the arm failed at a step although its load ran to the end; empty if it did not."""
    if driver.transactions == 0:
        return NOTHING_ENDED
    if driver.errors or driver.reconnects:
        return f"{driver.errors} errors and {driver.reconnects} lost connections"
    share = driver.ignored_errors / driver.transactions
    if share > validity.ignored_errors_per_transaction:
        bound = validity.ignored_errors_per_transaction
        return f"{driver.ignored_errors} ignored errors, {share:.3g} per transaction (bound {bound:g})"
    found = {finding.rule for finding in driver.findings if finding.level == "invalid"}
    return next((OF_RULE[rule] for rule in OF_THE_ARM if rule in found), "")


SATURATED_PCT = 97.0
"""CPU use of a thread above which dynoload calls a run invalid."""


def saturated(slices: Sequence[SliceRecord]) -> tuple[DriverFinding, ...]:
    """That the load program's busiest thread had no CPU time left over all of a step's slices; empty if it had."""
    known = [(one.length_s, one.rates["busiest_worker_pct"]) for one in slices if "busiest_worker_pct" in one.rates]
    seconds = sum(length_s for length_s, _ in known)
    busy_pct = sum(length_s * percent for length_s, percent in known) / seconds if seconds else 0.0
    if busy_pct <= SATURATED_PCT:
        return ()
    text = f"a thread of the load program used {busy_pct:.0f} % of a CPU (bound {SATURATED_PCT:.0f} %)"
    return (DriverFinding(rule="cpu", level="invalid", text=text),)


def failure_at_rate(slices: Sequence[SliceRecord]) -> str:
    """Why the arm did not carry the rate of a step's slices, by the rules of `failure_of`; empty if it did."""
    planned = sum(one.planned for one in slices)
    if sum(one.unfinished for one in slices) > MOST_UNFINISHED * planned:
        return UNFINISHED
    return DROPPED if sum(one.dropped for one in slices) > MOST_DROPPED * planned else ""


def step_warnings(step: Step, driver: DriverResult) -> tuple[str, ...]:
    """What a reader should know of a step that counts: what the host did to the driver, and what was not found."""
    changed, unchanged = driver.whole.get("write", 0), driver.whole.get("unchanged", 0)
    share = unchanged / max(1, changed + unchanged)
    absent = f"{share:.0%} of the writes changed no row: they met none, or the value was there already"
    not_found, words = missed(step, driver.whole)
    return (
        *_host_warnings(driver),
        *([absent] if share >= WORTH_KNOWING else []),
        *([words] if not_found >= WORTH_KNOWING else []),
        *(one.text for one in doubts_of(driver)),
    )


def _host_warnings(driver: DriverResult) -> tuple[str, ...]:
    """What the host did to the driver. It counts: to leave such steps out would select among the host's states.

    cpu_wait is never worse than suspect.
    """
    return tuple(
        finding.text
        for finding in driver.findings
        if finding.rule in OF_THE_HOST and (finding.level == "invalid" or finding.rule == "cpu_wait")
    )


def _least_steady(windows: Mapping[int, WindowSteadiness]) -> WindowSteadiness:
    """The steadiness of a step: as unsteady as its least steady instance, with the latest trustworthy cut."""
    order = ("steady", "undecided", "not steady")
    worst = max(windows.values(), key=lambda steady: order.index(steady.steadiness))
    trusted = [steady for steady in windows.values() if steady.mser5_trustworthy]
    cut = max(trusted or [next(iter(windows.values()))], key=lambda steady: steady.mser5_cut_s)
    return worst.model_copy(
        update={
            "mser5_cut_s": cut.mser5_cut_s,
            "mser5_beyond_half": cut.mser5_beyond_half,
            "mser5_trustworthy": cut.mser5_trustworthy,
            "samples": cut.samples,
            "reasons": tuple(
                f"instance {instance}: {reason}" for instance, steady in windows.items() for reason in steady.reasons
            ),
        }
    )
