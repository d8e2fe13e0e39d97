"""The plan of a study on this host: switchback where one server can take all arms' settings in turn, interleaved where
all arms can be up at the same time, else blocks; and why."""

from __future__ import annotations

from mydyno.errors import HostError, UserError
from mydyno.execution.planning.forecast import forecast
from mydyno.execution.planning.time_plan import FEWEST_CYCLES_OVER_TIME, check_time, cycles_of, plan_time, shape_of
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import INTERIM_BLOCKS, Design, Plan, builds_of, instances_of_each, make_plan
from mydyno.model.metrics import EXECUTED, FEWEST_OF_GROWTH, GROWTH
from mydyno.treatments.coexistence import interleaving_obstacles, is_switched, shortages, switching_obstacles

MOST_BLOCKS = 40
"""Most blocks of a study without looks that is fitted into a time."""


def plan_study(experiment: Experiment, paths: HostPaths) -> Plan:
    """The plan of a new study here: its design and its blocks. Raises UserError for an impossible design, and for a
    time that is too short for a verdict.
    """
    design = choose_design(experiment, paths)
    time_s, instances = experiment.design.time, instances_of_each(experiment)
    if instances > 1 and experiment.design.blocks != instances and "blocks" in experiment.design.model_fields_set:
        raise UserError(
            f"design.blocks is {experiment.design.blocks}, and each arm has {instances} instances: one in each block",
            "omit design.blocks",
        )
    if time_s is None:
        return make_plan(experiment, design, instances if instances > 1 else None)
    if design.kind == "blocks":
        one_s = forecast(experiment, make_plan(experiment, design, 1), paths).study_s
        return make_plan(experiment, design, max(1, min(MOST_BLOCKS, int(time_s / one_s))))
    check_time(time_s, shape_of(experiment), instances=instances)
    if instances > 1:
        return make_plan(experiment, design, instances)
    return make_plan(experiment, design, plan_time(time_s, shape_of(experiment)).blocks)


def with_copies(experiment: Experiment, paths: HostPaths) -> Experiment:
    """With a second copy of the treated arm where it is the only one, the study has a time, the file states no number
    of copies, host and time have room, and blocks enough for equivalence are left: intervals are then 6 % narrower,
    where starts differ most 18 %.
    """
    design = experiment.design
    stated = design.copies is not None or design.kind == "blocks" or design.time is None
    if stated or len(experiment.arms) != 2 or _copies_obstacle(experiment):
        return experiment
    twice = experiment.model_copy(update={"design": design.model_copy(update={"copies": 2})})
    once_planned, planned = (plan_time(design.time or 0.0, shape_of(one)) for one in (experiment, twice))
    in_time = planned.reaches_look and planned.blocks >= min(once_planned.blocks, INTERIM_BLOCKS[0])
    return twice if in_time and (is_switched(twice) or not interleaving_obstacles(twice, paths)) else experiment


def _copies_obstacle(experiment: Experiment) -> str | None:
    """Why a block has each treated arm once; None: it may have it twice."""
    if experiment.screen is not None:
        return "screen: its design has each combination once"
    if experiment.is_search:
        return "steps.search: a capacity is that of one server"
    if experiment.compares_statements:
        return "steps.statements: each statement is executed on all servers in turn"
    if instances_of_each(experiment) > 1 or any(builds_of(arm) > 1 for arm in experiment.arms):
        return "a block has one build, or one running server, of each arm"
    return None


def choose_design(experiment: Experiment, paths: HostPaths) -> Design:
    """The design with its reason. Raises UserError if the experiment demands one that is impossible, HostError if that
    is for lack of memory or disk.
    """
    design = _design(experiment, paths)
    if experiment.design.copies == 2:
        obstacle = design.why if design.kind == "blocks" else _copies_obstacle(experiment)
        if obstacle is not None:
            raise UserError(f"design.copies = 2: {obstacle}", "omit design.copies")
    of_slices = next((one for one in experiment.verdict.primary if one in (GROWTH, *EXECUTED)), None)
    if of_slices is not None and design.kind == "blocks":
        raise UserError(
            f"verdict.primary: {of_slices} is measured in the interleaved design only; this study has blocks: "
            f"{design.why}",
            "remove it from verdict.primary",
        )
    growth, cycles = GROWTH in experiment.verdict.primary, cycles_of(experiment)
    if growth and experiment.design.time is None and cycles < FEWEST_OF_GROWTH:
        raise UserError(
            f"verdict.primary: {GROWTH} needs {FEWEST_OF_GROWTH} cycles in a block, not {cycles}",
            f"use design.cycles = {FEWEST_CYCLES_OVER_TIME}, or a time, such as --time 10m",
        )
    return design


def _design(experiment: Experiment, paths: HostPaths) -> Design:
    kind = experiment.design.kind
    if is_switched(experiment):
        if kind in ("blocks", "interleaved"):
            raise UserError(
                f'design.kind = "{kind}": variables of an external server (dsn) are switched between slices',
                'use design.kind = "auto"',
            )
        if obstacles := switching_obstacles(experiment):
            demanded, hint = 'design.kind = "switchback"', 'use design.kind = "auto"'
            if experiment.server.dsn is not None:
                demanded, hint = "server.dsn", "use server.name for a private server"
            raise UserError(
                f"{demanded}: the arms are not settings of one running server:\n  " + "\n  ".join(obstacles), hint
            )
        return Design("switchback", "a running server takes over every setting that the arms differ in")
    if kind == "blocks":
        return Design("blocks", 'design.kind = "blocks"')
    obstacles = interleaving_obstacles(experiment, paths)
    if not obstacles:
        return Design("interleaved", "all arms can run at the same time")
    error = HostError if obstacles == shortages(experiment, paths) else UserError
    if experiment.is_search:
        raise error(
            "steps.search: the arms cannot run at the same time:\n  " + "\n  ".join(obstacles),
            "a search needs the interleaved design; use fewer arms, or smaller ones",
        )
    if kind == "interleaved":
        raise error(
            'design.kind = "interleaved": the arms cannot run at the same time:\n  ' + "\n  ".join(obstacles),
            'use design.kind = "blocks", or "auto"',
        )
    return Design("blocks", "; ".join(obstacles))
