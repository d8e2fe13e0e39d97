"""`mydyno gate STUDY|EXPERIMENT`: an exit code for CI: passed, worse or undecided."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mydyno.cli import arguments
from mydyno.cli.streams import warn_of_damage
from mydyno.cli.study_options import load_for_study
from mydyno.errors import UserError
from mydyno.experiment_file.thresholds import with_thresholds
from mydyno.experiments import built_in
from mydyno.fleet.groups import parse_hosts
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ArmSpec, Experiment, ThresholdSpec
from mydyno.model.definition.problems import with_guess
from mydyno.model.definition.source_build import BuildSpec
from mydyno.store.study_folder import StudyFolder, is_study, studies_below

BASE, HEAD = "base", "head"


def with_commits(experiment: Experiment, base: str, head: str) -> Experiment:
    """The experiment with the arms BASE, which is the control, and HEAD; both have the treatments of its control.

    Raises UserError if the control is not built from a git repository, for a wrong ref, and where a threshold or
    comparison of the experiment names other arms.
    """
    control = experiment.arm(experiment.control)
    server = control.treatments.get("server")
    build = server.get("build") if isinstance(server, dict) else None
    if not isinstance(build, dict) or not build.get("git"):
        raise UserError(
            f"--base, --head: the control {control.name} of {experiment.name} is not built from a git repository",
            'set server.build = { git = "…", command = "…" }, and no other server for this arm',
        )
    if base == head:
        raise UserError(f"--base and --head are the same commit, {base}")

    def arm(name: str, ref: str) -> ArmSpec:
        try:
            BuildSpec.model_validate({**build, "ref": ref})
        except ValueError:
            raise UserError(f"--{name} {ref!r}: not a commit, tag or branch") from None
        treatments: dict[str, Any] = {**control.treatments, "server": {"build": {**build, "ref": ref}}}
        return ArmSpec(name=name, treatments=treatments, instances=control.instances)

    named = {name for limit in experiment.thresholds for name in limit.arms}
    named |= {name for compare in experiment.verdict.compare for name in (*compare.arms, compare.control)}
    if other := sorted(named - {BASE, HEAD}):
        raise UserError(
            f"--base, --head: {experiment.name} has thresholds or comparisons of other arms: {', '.join(other)}",
            f"the arms are {BASE}, the control, and {HEAD}",
        )
    return experiment.model_copy(update={"control": BASE, "arms": (arm(BASE, base), arm(HEAD, head))})


Target = Annotated[
    str,
    typer.Argument(
        help="A study's folder, or its name below the studies folder; or an experiment, which is run.",
        metavar="STUDY|EXPERIMENT",
    ),
]
Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        help="A limit that replaces the experiment's for this metric: qps='no worse than -2%'. Repeatable.",
        metavar="METRIC=LIMIT",
    ),
]
File = Path | None


def gate(
    context: typer.Context,
    target: Target,
    thresholds: Thresholds = None,
    base: Annotated[
        str | None,
        typer.Option(help="Compare two commits of the control's repository; this is the control.", metavar="REF"),
    ] = None,
    head: Annotated[str | None, typer.Option(help="With --base: the commit to compare with it.", metavar="REF")] = None,
    junit: Annotated[File, typer.Option(help="Write JUnit XML.", metavar="FILE", callback=arguments.check_file)] = None,
    markdown: Annotated[
        File, typer.Option(help="Write Markdown for a pull request.", metavar="FILE", callback=arguments.check_file)
    ] = None,
    as_json: Annotated[
        File,
        typer.Option("--json", help="Write Bencher Metric Format JSON.", metavar="FILE", callback=arguments.check_file),
    ] = None,
    scale: arguments.Scale = None,
    settings: arguments.Overrides = None,
    blocks: arguments.Blocks = None,
    time: arguments.Time = None,
    hosts: arguments.Hosts = None,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
    data: arguments.Data = None,
    allow_writes: arguments.AllowWrites = False,
    allow_changes: arguments.AllowChanges = False,
    wait: arguments.Wait = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Decide by exit code whether an arm is worse than allowed: for CI."""
    if (base is None) != (head is None):
        raise UserError(f"{'--head' if head is None else '--base'}: missing: --base and --head belong together")
    files = {"--junit": junit, "--markdown": markdown, "--json": as_json}
    path = arguments.study_path(target, studies)
    if is_study(path):
        if wrong := arguments.given(context, "scale settings blocks time hosts data base head"):
            raise UserError(
                f"{wrong}: {target} is a study, which has been run already",
                f"to add blocks: mydyno resume {target} --time DURATION",
            )
        declared = _of_study(path, thresholds or [])
        # It takes a tenth of a second to load.
        from mydyno.cli.gate_runner import finish

        folder = StudyFolder.open(path)
        warn_of_damage(folder)
        finish(folder, declared, files)
        return
    _check_exists(target, studies)
    resolved, source = load_for_study(target, scale, arguments.all_settings(settings, blocks, time))
    if base is not None and head is not None:
        resolved = with_commits(resolved, base, head)
    resolved = with_thresholds(resolved, thresholds or [])
    if not resolved.thresholds:
        raise UserError(
            f"{target} declares no threshold; nothing was started",
            "add [thresholds] to the file, or --threshold qps='no worse than -2%'",
        )
    groups = () if hosts is None else parse_hosts(hosts, data)
    paths = HostPaths.resolve(data, allow_writes, allow_changes, wait)
    # After the check, so that mistakes are reported at once: what a study needs takes a third of a second to load.
    from mydyno.cli.gate_runner import finish, run_experiment

    finish(run_experiment(resolved, source.text, studies, paths, groups), resolved.thresholds, files)


def _of_study(path: Path, thresholds: list[str]) -> tuple[ThresholdSpec, ...]:
    experiment = with_thresholds(StudyFolder.open(path).study().experiment, thresholds)
    if not experiment.thresholds:
        raise UserError(
            f"{path} declares no threshold", f"name one: mydyno gate {path} --threshold qps='no worse than -2%'"
        )
    return experiment.thresholds


def _check_exists(target: str, studies: Path) -> None:
    """Raises UserError that names the nearest study or experiment."""
    if target in built_in() or Path(target).is_file():
        return
    known = [*built_in(), *(path.name for path in studies_below(studies))]
    raise UserError(
        f"{target}: no such study below {studies}, and no such experiment or file",
        with_guess("", target, known) or "`mydyno list` lists experiments and studies",
    )
