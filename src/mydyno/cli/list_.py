"""`mydyno list`: the built-in experiments, and the studies in a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import get_terminal_size
from textwrap import shorten

from mydyno.cli import arguments
from mydyno.cli.streams import print_json
from mydyno.errors import MydynoError
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.planning.forecast import forecast
from mydyno.experiment_file.published_studies import published_studies
from mydyno.experiments import built_in, load, source_of
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.quantities import format_duration
from mydyno.store.study_folder import StudyFolder, studies_below

NOT_HERE = "not on this host"
NONE = "-"
WHOLE = 1000
"""Columns where no terminal limits them."""
FEWEST_COLUMNS = 30
"""Of a question, on a narrow terminal."""
MOST_NAMED = 3
"""Damaged files of a study."""


def list_(studies: arguments.Studies = arguments.DEFAULT_STUDIES, as_json: arguments.Json = False) -> None:
    """List the built-in experiments and the studies."""
    experiments = [_experiment(name) for name in built_in()]
    found = [_study(path) for path in studies_below(studies)]
    if as_json:
        print_json({"experiments": experiments, "studies": found})
        return
    width = get_terminal_size().columns if sys.stdout.isatty() else WHOLE
    print(f"  {'experiment':<24} {'quick':<10} question")
    for experiment in experiments:
        row = f"  {experiment['name']:<24} {experiment['quick'] or NONE:<10} "
        print(row + shorten(experiment["question"], max(FEWEST_COLUMNS, width - len(row)), placeholder=" …"))
    print(f"\n  {NONE} {NOT_HERE}; mydyno plan NAME says why, and what an experiment does")
    print(f"\nstudies in {studies}/")
    for study in found:
        print(f"  {study['name']:<36} {study['state']:<10} {study['runs']}")
    if not found:
        print("  none yet")


def _experiment(name: str) -> dict[str, str]:
    paths = HostPaths.resolve()
    found: dict[str, str] = {}
    quick = ""
    scales = ("quick", "standard", *(("published",) if "published" in source_of(name).tree.get("scale", {}) else ()))
    for scale in scales:
        experiment, _ = load(name, scale)
        expected = forecast(experiment, plan_study(experiment, paths), paths)
        if expected.obstacles:
            found[scale] = f"{NOT_HERE}: {expected.obstacles[0]}"
        else:
            time = format_duration(expected.study_s)
            found[scale] = f"about {time}"
            quick = time if scale == "quick" else quick
    told = list(dict.fromkeys(found.values()))
    alike = len(told) == 1 and told[0].startswith(NOT_HERE)
    here = told[0] if alike else ", ".join(f"{scale} {words}" for scale, words in found.items())
    repeats = repeats_words(experiment)
    return {"name": name, "question": experiment.question, "repeats": repeats, "here": here, "quick": quick}


def repeats_words(experiment: Experiment) -> str:
    """The published studies that it repeats; empty if it is of mydyno's own."""
    known = published_studies()
    titles = []
    for name in filter(known.__contains__, experiment.published):
        spoken = name.replace("-", " ")
        is_whole = known[name].concludes_on(experiment)
        titles.append(f"{spoken}, {known[name].title}" if is_whole else f"an appendix of {spoken}")
    return f"repeats {'; '.join(titles)}" if titles else ""


def _study(path: Path) -> dict[str, str]:
    folder = StudyFolder(path)
    try:
        StudyFolder.open(path).study()
        summary = folder.summary()
        planned = folder.plan()
        made = len(planned.runs) - len(folder.missing_runs(planned))
    except MydynoError as error:
        return {"name": folder.name, "state": "damaged", "runs": error.message}
    state = summary.state if summary is not None else "unfinished"
    runs = f"{made} of {len(planned.runs)} runs"
    damaged = folder.damaged_runs()
    named = ", ".join(damaged[:MOST_NAMED]) + " …" * (len(damaged) > MOST_NAMED)
    words = filter(None, [runs, folder.journal.damage(), f"{named} cannot be read" if damaged else None])
    return {"name": folder.name, "state": state, "runs": "; ".join(words)}
