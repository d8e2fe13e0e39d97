"""`mydyno list`: the built-in experiments, and the studies in a folder."""

from __future__ import annotations

from pathlib import Path

import typer

from mydyno.cli import arguments
from mydyno.cli.output import print_json
from mydyno.errors import MydynoError
from mydyno.experiments import built_in, load
from mydyno.hosts.settings import Settings
from mydyno.model.plan import make_plan
from mydyno.model.quantities import format_duration
from mydyno.running.forecast import forecast
from mydyno.store.study_folder import StudyFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="list", help="List the built-in experiments and the studies.")(list_all)


def list_all(studies: arguments.Studies = arguments.DEFAULT_STUDIES, as_json: arguments.Json = False) -> None:
    """Print both lists."""
    experiments = [_experiment(name) for name in built_in()]
    found = [_study(path) for path in sorted(studies.glob("*/study.json"))]
    if as_json:
        print_json({"experiments": experiments, "studies": found})
        return
    print("experiments")
    for experiment in experiments:
        print(f"  {experiment['name']:<20} {experiment['question']}")
        print(f"  {'':<20} {experiment['here']}")
    print(f"\nstudies in {studies}/")
    for study in found:
        print(f"  {study['name']:<36} {study['state']:<10} {study['runs']}")
    if not found:
        print("  none yet")


def _experiment(name: str) -> dict[str, str]:
    settings = Settings.resolve()
    times = []
    obstacles: tuple[str, ...] = ()
    for scale in ("quick", "standard"):
        experiment, _ = load(name, scale)
        expected = forecast(experiment, make_plan(experiment), settings)
        times.append(f"{scale} about {format_duration(expected.study_s)}")
        obstacles = obstacles or expected.obstacles
    here = ", ".join(times) if not obstacles else f"not on this host: {obstacles[0]}"
    return {"name": name, "question": experiment.question, "here": here}


def _study(path: Path) -> dict[str, str]:
    folder = StudyFolder(path.parent)
    try:
        summary = folder.summary()
        planned = len(folder.plan().runs)
        made = sum(1 for _ in folder.path.glob("blocks/*/*/run.json"))
    except MydynoError as error:
        return {"name": folder.name, "state": "damaged", "runs": error.message}
    state = summary.state if summary is not None else "unfinished"
    return {"name": folder.name, "state": state, "runs": f"{made} of {planned} runs"}
