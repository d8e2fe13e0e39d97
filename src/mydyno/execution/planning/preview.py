"""What a study would be on this host, with everything that can be checked before it: nothing is started or fetched; and
the plan in words, as `mydyno plan` prints it and the page /design shows it.

What a study would set on a server that others use, and back to what: read from the server, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from mydyno.errors import HostError, ServerError, UserError
from mydyno.execution.checks import with_files
from mydyno.execution.environments.builds import (
    BuildForecast,
    check_values,
    check_variables,
    forecast_builds,
    present_builds,
    unchecked_variables,
)
from mydyno.execution.external_writes import load_writes, schemas_of
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.planning.forecast import Forecast, forecast
from mydyno.execution.planning.time_plan import cycles_of, plan_time, replay_lines, shape_of, time_of_blocks
from mydyno.experiment_file.arms import coded
from mydyno.experiment_file.thresholds import limit_words
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.telemetry import unreadable_here, words_of
from mydyno.hosts.tracing.perf import perf_obstacle
from mydyno.language import listing
from mydyno.model.definition.experiment import ArmSpec, Experiment, ScreenSpec, ServerSpec
from mydyno.model.definition.plan import Plan, instances_of_each
from mydyno.model.definition.quantities import format_bytes, format_duration
from mydyno.model.definition.server_options import option_name
from mydyno.model.definition.specs import PROFILE_EVERY
from mydyno.servers.dsn import place_of
from mydyno.servers.external_variables import reading
from mydyno.servers.my_cnf import option_value
from mydyno.servers.option_file import read_option_file, replaced_in, same_setting
from mydyno.servers.sql import Control
from mydyno.stats.power import minimum_blocks
from mydyno.stats.tost import FEWEST_BLOCKS
from mydyno.treatments.coexistence import switched_names, switched_treatments, switched_variables
from mydyno.treatments.dsn import addresses_of, places_of
from mydyno.treatments.server import server_of
from mydyno.workloads.data import kind_of
from mydyno.workloads.files import file_of

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
        servers = f"one server per block, switched to each arm's {switched} in turn{twice}, slices of {slices}"
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


UNKNOWN_HERE = "and that of builds from source, which `mydyno plan` states: their commits are not looked up here"
"""Without `start_programs`."""
MOST_LETTERS = 40
"""Of a value that is printed; an optimizer_switch has hundreds."""


@dataclass(frozen=True)
class Preview:
    """The plan of a study and its forecast."""

    plan: Plan
    forecast: Forecast


async def preview(
    experiment: Experiment, paths: HostPaths, *, start_programs: bool = True, apart: bool = False
) -> Preview:
    """Plan and forecast. Raises UserError for an impossible design and for unknown variables.

    Variables are checked against the servers that are in the cache already; that `run` checks those of servers that it
    has to fetch first is a caution. A server of which nothing is known yet is started for that, with --version and
    --help, and the commit of a build is looked up with git. Without `start_programs` only servers of the catalogue are:
    the others may be anything. `apart`: the load comes from other hosts.
    """
    of_builds = BuildForecast()
    of_variables: tuple[str, ...] = ()
    if start_programs or all(_is_of_catalogue(server_of(arm, experiment.server)) for arm in experiment.arms):
        host = LocalHost("plan", paths.server_user)
        of_builds = await forecast_builds(experiment, paths.cache, host)
        builds = await present_builds(experiment, paths, host)
        await check_variables(builds, experiment, host)
        of_variables = (*await check_values(builds, experiment, host), *unchecked_variables(builds, experiment))
    elif any(server_of(arm, experiment.server).build is not None for arm in experiment.arms):
        of_builds = BuildForecast(time=(UNKNOWN_HERE,))
    plan = plan_study(experiment, paths)
    expected = forecast(experiment, plan, paths, apart=apart)
    expected = replace(expected, builds=of_builds, cautions=(*expected.cautions, *of_variables))
    if start_programs:
        expected = await with_external_changes(with_files(expected, experiment, paths), experiment)
        expected = planned_writes(expected, experiment, paths)
    if start_programs and (words := _unreadable(paths)):
        expected = replace(expected, cautions=(*expected.cautions, f"not sampled on this host: {words}"))
    return Preview(plan, expected)


def _unreadable(paths: HostPaths) -> str:
    try:
        return words_of(unreadable_here(paths))
    except HostError as error:
        return error.message


def _is_of_catalogue(spec: ServerSpec) -> bool:
    return spec.name is not None and spec.basedir is None and spec.build is None


async def with_external_changes(expected: Forecast, experiment: Experiment) -> Forecast:
    """The forecast with the present and the arms' values of each variable; an obstacle where they cannot be read."""
    settings = switched_variables(experiment)
    names = switched_names(experiment)
    if experiment.server.dsn is None or not names:
        return expected
    try:
        address = addresses_of(experiment.arm(experiment.control), experiment.server)[0]
        async with Control(address) as control:
            version = await control.scalar("SELECT VERSION()")
            (values,) = await control.rows(reading(names))
    except (ServerError, UserError) as error:
        return expected.with_obstacle(f"server.dsn: {error.message}")
    changes = []
    for name, now in zip(names, values, strict=True):
        of_arms = [f"{option_value(own[name])} ({arm})" for arm, own in settings.items() if name in own]
        former = f"{now}" if len(str(now)) <= MOST_LETTERS else "what it is"
        changes.append(f"{name} from {former} to {', '.join(of_arms)}")
    words = (
        f"on {place_of(experiment.server.dsn)} ({version}), before each slice: {'; '.join(changes)}; set back after "
        "each block, however the study ends, and by `mydyno clean` after kill -9; needs --allow-changes"
    )
    return replace(expected, host_changes=(words,))


def planned_writes(expected: Forecast, experiment: Experiment, paths: HostPaths) -> Forecast:
    """The forecast with what would be written to an external server, as changes; an obstacle where it must not be."""
    if experiment.server.dsn is None:
        return expected
    data = experiment.data
    places = listing(places_of(experiment))
    schemas = listing(schemas_of(experiment))
    lines = []
    if data.sql is not None:
        lines.append(f"where the schema {schemas} is empty, the data of {file_of(data).name} are loaded into it")
    try:
        lines += [one.words for one in load_writes(experiment, paths)]
    except UserError as error:
        return expected.with_obstacle(error.message)
    if not lines:
        return expected
    return expected.with_change(f"on {places}: {'; '.join(lines)}; needs --allow-writes")
