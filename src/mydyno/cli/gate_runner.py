"""Runs the study of `mydyno gate`, prints its answer, writes its files, and exits with its code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import typer

from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.study_runner import report_of, run_fleet_study, run_study_here
from mydyno.document.console import Paper
from mydyno.document.markdown_text import code, printed
from mydyno.errors import UserError
from mydyno.evaluation.facts import summarise
from mydyno.execution.planning.design_choice import with_copies
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ThresholdSpec
from mydyno.model.definition.host_groups import HostGroup
from mydyno.reports.gate import gate_document
from mydyno.reports.gate_files import bencher, junit
from mydyno.results.gate import is_gate_decided
from mydyno.store.study_folder import StudyFolder
from mydyno.study import Request, run_study
from mydyno.verdicts.threshold import Outcome
from mydyno.wording.gate import GateResult, gate_study


def markdown(result: GateResult) -> str:
    """The gate as a comment of a pull request, or a job's summary."""
    return printed(gate_document(result), f"`mydyno gate {code(result.study)}`")


WRITERS: dict[str, Callable[[GateResult], str]] = {"--junit": junit, "--markdown": markdown, "--json": bencher}
CODES = {Outcome.PASSED: ExitCode.DONE, Outcome.WORSE: ExitCode.GATE_WORSE, Outcome.UNDECIDED: ExitCode.GATE_OPEN}


def run_experiment(
    experiment: Experiment, source_text: str, studies: Path, paths: HostPaths, groups: tuple[HostGroup, ...] | None
) -> StudyFolder:
    """Run a study that may end as soon as every threshold is decided; its folder."""
    command = ("mydyno", *sys.argv[1:])
    if groups is None:
        experiment = with_copies(experiment, paths)
        request = Request(experiment, source_text, studies, command, is_gate_decided)
        return run_study_here(lambda watcher: run_study(request, paths, watcher), experiment)[0]
    # What hosts by SSH need is slow to load.
    from mydyno.fleet.controller import FleetRequest, run_on_groups

    ordered = FleetRequest(experiment, source_text, studies, groups, command, is_gate_decided)
    return run_fleet_study(lambda watcher: run_on_groups(ordered, paths, watcher))[0]


def finish(folder: StudyFolder, thresholds: tuple[ThresholdSpec, ...], files: Mapping[str, Path | None]) -> None:
    """Print the answer, write the files ({option: path}) and the report, and exit with the answer's code."""
    result = gate_study(folder, summarise(folder), thresholds)
    for option, path in files.items():
        if path is not None:
            _write(option, path, WRITERS[option](result))
    Paper(sys.stdout).document(gate_document(result))
    print(f"\nreport: {report_of(folder)}")
    if CODES[result.outcome] is not ExitCode.DONE:
        raise typer.Exit(CODES[result.outcome])


def _write(option: str, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror or error}") from error
