"""`mydyno hosts script EXPERIMENT`: a study's folder with a job for Slurm or Kubernetes that executes its blocks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from mydyno import experiments
from mydyno.cli import arguments
from mydyno.cli.streams import warn
from mydyno.cli.verbosity import set_verbosity
from mydyno.errors import UserError
from mydyno.execution.planning.design_choice import choose_design
from mydyno.execution.planning.forecast import forecast
from mydyno.execution.study_record import new_study
from mydyno.files.atomic import write_text
from mydyno.fleet.batch import Batch, kubernetes_job, slurm_script
from mydyno.fleet.group_rules import check_server
from mydyno.fleet.study_files import FOLDER, find_files, on_host
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.plan import make_plan
from mydyno.store.study_folder import StudyFolder


def script(
    experiment: arguments.Experiment,
    slurm: Annotated[bool, typer.Option("--slurm", help="Write slurm.sh, an array job for sbatch.")] = False,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Write kubernetes.json, an Indexed Job for kubectl apply.")
    ] = False,
    scale: arguments.Scale = None,
    settings: arguments.Overrides = None,
    blocks: arguments.Blocks = None,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
    program: Annotated[str, typer.Option(help="How the nodes start mydyno.", metavar="COMMAND")] = "mydyno",
    parallel: Annotated[
        int | None, typer.Option(help="Maximum number of concurrent blocks.", min=1, metavar="N")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Kubernetes: an image with mydyno on its PATH.", metavar="IMAGE")
    ] = None,
    claim: Annotated[
        str | None, typer.Option(help="Kubernetes: the PersistentVolumeClaim of the studies folder.", metavar="NAME")
    ] = None,
    verbose: arguments.Verbose = False,
) -> None:
    """Plan a study with a fixed number of blocks in a folder that all nodes share, and write its job."""
    set_verbosity(verbose)
    if slurm == kubernetes:
        raise UserError("one of --slurm and --kubernetes is needed")
    if kubernetes and not (image and claim):
        raise UserError(
            "--kubernetes needs --image and --claim",
            "an image with mydyno on its PATH, and the PersistentVolumeClaim that holds the studies folder",
        )
    resolved, source = experiments.load(experiment, scale, arguments.all_settings(settings, blocks))
    if resolved.design.time is not None:
        # A job has no looks: effects are not examined between its tasks.
        fixed = ['design.time="none"', f"design.blocks={resolved.design.blocks}"]
        resolved, source = experiments.load(experiment, scale, [*arguments.all_settings(settings, blocks), *fixed])
    check_server(resolved, "hosts script", "use `mydyno run`")
    paths = HostPaths.resolve()
    plan = make_plan(resolved, choose_design(resolved, paths))
    expected = forecast(resolved, plan, paths)
    files = find_files(resolved)
    study = new_study(resolved, source.text, ("mydyno", *sys.argv[1:]), paths)
    with StudyFolder.claimed(Path(studies).resolve(), study.study) as path:
        there = files.at(str(path / FOLDER))
        study = on_host(study, there).model_copy(update={"study": path.name, "files": files.checksums})
        folder = StudyFolder.create(path, study, plan)
    files.copy_to(folder.path / FOLDER)
    batch = Batch(folder.path, len(plan.blocks), expected.study_s / len(plan.blocks), program, parallel)
    if slurm:
        path, submit = folder.path / "slurm.sh", "sbatch"
        write_text(path, slurm_script(batch))
    else:
        path, submit = folder.path / "kubernetes.json", "kubectl apply -f"
        write_text(path, json.dumps(kubernetes_job(batch, image or "", claim or ""), indent=1) + "\n")
    print(path)
    warn(f"{len(plan.blocks)} blocks, design {plan.design}: {plan.why}")
    for obstacle in expected.obstacles:
        warn(f"on this host it could not run: {obstacle}")
    warn(f"submit: {submit} {path}\nwhen all blocks have ended: mydyno collect {folder.path}")
