"""A plan in words, as `mydyno plan` prints it and the page /design shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from mydyno.execution.planning.captured_time import replay_lines
from mydyno.execution.planning.forecast import Forecast
from mydyno.execution.planning.time_plan import cycles_of, plan_time, shape_of, time_of_blocks
from mydyno.experiment_file.arms import coded
from mydyno.experiment_file.thresholds import limit_words
from mydyno.hosts.tracing.perf import perf_obstacle
from mydyno.model.definition.experiment import ArmSpec, Experiment, ScreenSpec
from mydyno.model.definition.plan import Plan, instances_of_each
from mydyno.model.definition.quantities import format_bytes, format_duration
from mydyno.model.definition.server_options import option_name
from mydyno.model.definition.specs import PROFILE_EVERY
from mydyno.servers.my_cnf import option_value
from mydyno.servers.option_file import read_option_file, replaced_in, same_setting
from mydyno.stats.power import minimum_blocks
from mydyno.stats.tost import FEWEST_BLOCKS
from mydyno.treatments.coexistence import switched_names, switched_treatments
from mydyno.workloads.data import kind_of

COLUMNS = 90
"""Of a description."""
MOST_NAMES = 6
"""Of what is switched; the arms' settings are listed."""


@dataclass(frozen=True)
class Entry:
    """One thing that a plan says: its name, and one line or several."""

    label: str
    lines: tuple[str, ...]


Part = tuple[Entry, ...]
"""Entries that belong together."""
OBSTACLE = "OBSTACLE"
"""The label of what prevents the study on this host."""


def plan_parts(experiment: Experiment, plan: Plan, expected: Forecast) -> tuple[Part, Part, Part]:
    """What is run; in which design and order; time, disk, changes to the host, notes and obstacles."""
    interleaved = plan.design != "blocks"
    return (
        (*_what(experiment, expected), *_steps(experiment, plan)),
        tuple(_interleaved(experiment, plan) if interleaved else _blocks(plan, expected)),
        (_time(plan, expected), *_costs(experiment, plan, expected)),
    )


def _what(experiment: Experiment, expected: Forecast) -> Iterator[Entry]:
    server = experiment.server
    if experiment.description:
        yield Entry("about", tuple(wrap(experiment.description, COLUMNS)))
    variables = (f"{name} = {value}" for name, value in server.variables.items())
    yield Entry("server", (server.title, *variables))
    if expected.builds.builds:
        yield Entry("build", expected.builds.builds)
    data = experiment.data
    kind = kind_of(data)
    size = kind.rows_bytes(data) or expected.data_bytes
    whole = f"{data.workload}: {kind.words(data)}" + (f", about {format_bytes(size)}" if size else "")
    statistics = () if data.statistics is None else (f"the optimizer's statistics of {data.statistics}",)
    yield Entry("data", (whole, *(expected.dump.lines() if expected.dump else ()), *statistics))
    if server.option_file:
        yield Entry("options", tuple(_option_file_words(server.option_file)))
    control = experiment.arm(experiment.control)
    settings = [line for arm in experiment.arms for line in _settings(experiment, arm, control)]
    yield Entry("arms", (", ".join(_arm_words(experiment, arm) for arm in experiment.arms), *settings))
    if experiment.screen is not None:
        yield Entry("screen", tuple(_screen(experiment, experiment.screen)))


def _screen(experiment: Experiment, spec: ScreenSpec) -> Iterator[str]:
    """The design, its variables, and each of its runs as signs in the order of the variables."""
    rows = coded(spec, experiment.arms)
    kind = "definitive screening" if spec.design == "definitive" else "Plackett–Burman"
    fold = ", each also with all values exchanged (foldover)" if spec.foldover else ""
    yield f"{kind}: {len(rows)} runs for the main effects of {len(spec.variables)} variables{fold}"
    for name, levels in spec.variables.items():
        yield f"{name}: {' → '.join(map(str, levels))}"
    signs = {-1: "−", 0: "0", 1: "+"}
    yield "; ".join(f"{arm} {''.join(signs[x] for x in row)}" for arm, row in rows.items())


def _steps(experiment: Experiment, plan: Plan) -> Iterator[Entry]:
    for step in experiment.resolved_steps:
        options = "".join(f", {name} = {value}" for name, value in step.options.items())
        warmup, measure = format_duration(step.warmup_s), format_duration(step.measure_s)
        times = f"warm-up {warmup}" + ("" if plan.design != "blocks" else f", measure {measure}")
        lines = [f"{step.id}: {step.driver}, {times}{options}"]
        if step.search is not None and step.search.of == "connections":
            lines += [
                f"searches for the most connections with {step.search.words}: a closed loop, of each slice as many",
                f"begins with 1, triples it until the limit is missed or all {step.connections} are loaded",
            ]
        elif step.search is not None:
            lines += [
                f"searches for the highest rate with {step.search.words}: Poisson arrivals, one rate for each slice",
                "begins at 100/s, triples it until the limit is missed, then goes where the outcome is least certain",
            ]
        if step.replay is not None:
            lines += replay_lines(experiment, plan, step)
        yield Entry("load", tuple(lines))
    for threshold in experiment.thresholds:
        yield Entry("gate", (limit_words(threshold),))
    cycles = f"in a slice of each arm after the first cycle and every {PROFILE_EVERY} cycles from there on"
    if experiment.profile.cpu:
        source = "by perf" if perf_obstacle() is None else "by samples of /proc"
        yield Entry("profile", (f"the servers' CPU time {source}, {cycles}; not in its values",))
    if experiment.profile.waits:
        own = "in measured slices performance_schema is on, and nothing is counted"
        yield Entry("waits", (f"the servers' waits by performance_schema, {cycles}; not in its values", own))
    if experiment.profile.kernel:
        yield Entry("kernel", (f"the kernel's events of the servers by bpftrace, {cycles}; not in its values",))


def _interleaved(experiment: Experiment, plan: Plan) -> Iterator[Entry]:
    shape, design = shape_of(experiment), experiment.design
    time_s = design.time if plan.sequential else None
    instances, count = instances_of_each(experiment), len(plan.blocks)
    if time_s is None:
        cycles = float(cycles_of(experiment))
    else:
        cycles = (plan_time(time_s, shape) if instances == 1 else time_of_blocks(time_s, shape, instances)).cycles
    slices = f"{design.slice:g} s after {design.washout:g} s of washout"
    up = f"{shape.servers} servers" if experiment.server.dsn is None else "the connections of all arms"
    twice = " (each arm twice)" if design.copies == 2 else ""
    up += twice
    servers = f"{up} at the same time, one arm loaded at a time, slices of {slices}"
    if plan.design == "switchback":
        names = [*switched_treatments(experiment), *switched_names(experiment)]
        switched = ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} settings"
        servers = f"one server a block, set to each arm's {switched} in turn{twice}, slices of {slices}"
    per_block = f"{cycles:.{0 if time_s is None else 1}f} cycles of every load level"
    if experiment.compares_statements:
        servers = f"{up} at the same time, one statement on one server at a time"
        per_block = f"{format_duration(cycles * shape.cycle_s)} of statements"
    yield Entry("design", (f"{plan.design}: {plan.why}", servers))
    if instances > 1:
        of_each = f"{count}, each with one instance of each arm and about {per_block}; examined once, at the end"
        yield Entry("blocks", (of_each,))
    elif time_s is None:
        yield Entry("blocks", (f"{count}, each with {per_block}; examined once, at the end",))
    else:
        due = [] if plan.schedule is None else [look for look in plan.schedule.rates if look <= count]
        looks = ", ".join(map(str, due))
        ends = (
            "ends as soon as an interim analysis decides every contrast; `mydyno resume STUDY --time …` adds blocks"
            if experiment.screen is None and not experiment.compares_statements
            else "ends with its time; `mydyno resume STUDY --time …` adds blocks"
        )
        yield Entry("blocks", (f"up to {count}, each with about {per_block}; interim analyses after: {looks}", ends))
    yield Entry("order", (_order(plan),))


def _blocks(plan: Plan, expected: Forecast) -> Iterator[Entry]:
    yield Entry("design", (f"blocks: {plan.why or 'one run after the other'}",))
    blocks = len(plan.blocks)
    yield Entry("runs", (f"{expected.runs} in {blocks} blocks, each with a second copy of the control (A/A)",))
    yield Entry("order", (_order(plan),))


def _order(plan: Plan) -> str:
    return f"random in each block, of seed {plan.seed}: --set design.seed={plan.seed} repeats it; --json prints it"


def _time(plan: Plan, expected: Forecast) -> Entry:
    prepare = [f"and {format_duration(expected.prepare_s)} to prepare the data, once"] if expected.prepare_s else []
    whole = format_duration(expected.study_s)
    if plan.design == "blocks":
        return Entry(
            "time", (f"about {whole} ({format_duration(expected.run_s)} a run)", *prepare, *expected.builds.time)
        )
    precision = "the precision to expect on this host is stated after the first cycles"
    return Entry(
        "time", (f"{'at most' if plan.sequential else 'about'} {whole}", precision, *prepare, *expected.builds.time)
    )


def _costs(experiment: Experiment, plan: Plan, expected: Forecast) -> Iterator[Entry]:
    disk, size = format_bytes(expected.disk_bytes), format_bytes(expected.data_bytes)
    study = format_bytes(expected.study_bytes)
    kept = f"{disk} while it runs (kept: the template, {size}), " if experiment.server.dsn is None else ""
    free = f"{format_bytes(expected.free_bytes)} are free"
    yield Entry("disk", (f"{kept}{study} for the study;", free, *expected.builds.disk))
    nothing = "nothing on this host beyond own processes and files in the cache"
    yield Entry("changes", ("; ".join(expected.host_changes) or nothing,))
    blocks = len(plan.blocks)
    contrasts = len(experiment.resolved_steps) * sum(len(arms) for arms in experiment.contrasts().values())
    fewest = minimum_blocks(max(1, contrasts))
    if plan.schedule is None and blocks < fewest and experiment.screen is None:
        yield Entry("note", (f"{blocks} blocks cannot show a difference: {fewest} are needed",))
    if experiment.thresholds and blocks < FEWEST_BLOCKS:
        yield Entry("note", (f"the gate cannot pass with {blocks} blocks: {FEWEST_BLOCKS} are needed",))
    for caution in expected.cautions:
        yield Entry("note", (caution,))
    for obstacle in expected.obstacles:
        yield Entry(OBSTACLE, (obstacle,))


def _option_file_words(name: str) -> Iterator[str]:
    """An option file, and what mydyno sets in its place."""
    replaced = replaced_in(read_option_file(Path(name)))
    yield f"{name}" + (f"; set by mydyno instead: {', '.join(replaced)}" if replaced else "")


def _settings(experiment: Experiment, arm: ArmSpec, control: ArmSpec) -> Iterator[str]:
    """The settings in which an arm differs from the control, and the options of its option file that mydyno replaces.

    The runs of a screening design are shown as signs.
    """
    if arm.option_file and (arm is control or arm.option_file != control.option_file):
        yield from (f"{arm.name}: {words}" for words in _option_file_words(arm.option_file))
    if arm is control or experiment.screen is not None:
        return
    own, others = _flat(arm.treatments), _flat(control.treatments)
    differences = [
        (f"{name} = {own[name]}" if name in own else f"without {name}")
        + (f" (control: {others[name]})" if name in others else "")
        for name in {**own, **others}
        if name not in own or name not in others or not same_setting(own[name], others[name])
    ]
    if differences:
        yield f"{arm.name}: {', '.join(differences)}"
    elif experiment.instances_of(arm) == experiment.instances_of(control):
        yield f"{arm.name}: sets the same as the control {control.name}"


def _flat(treatments: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings by dotted names; those of variables by their one spelling."""
    found: dict[str, str] = {}
    for name, value in treatments.items():
        if isinstance(value, Mapping):
            found |= _flat(value, "" if name == "variables" else f"{prefix}{name}.")
        else:
            of_each = ", ".join(map(str, value)) if isinstance(value, list) else option_value(value)
            found[f"{prefix}{name}" if prefix else option_name(name)] = of_each
    return found


def _arm_words(experiment: Experiment, arm: ArmSpec) -> str:
    """An arm with what it says beside its treatments: control, own control, several instances."""
    words = ["control"] if arm.name == experiment.control else [f"against {arm.control}"] if arm.control else []
    if experiment.most_instances > 1:
        count = experiment.instances_of(arm)
        words.append(f"{count} instance{'' if count == 1 else 's'}")
    return arm.name + (f" ({', '.join(words)})" if words else "")
