"""Runs the study of `mydyno gate`, prints its answer, writes its files, and exits with its code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from mydyno.analysis.catalogue import bencher, gate_document, junit
from mydyno.cli import ExitCode
from mydyno.cli.report import is_running
from mydyno.cli.study_runner import report_of, run_study_of
from mydyno.document.printers import Paper, code, printed
from mydyno.document.result import StudyResult
from mydyno.errors import UserError
from mydyno.evaluation.facts import facts_of, summarise
from mydyno.execution.interim import is_gate_decided
from mydyno.execution.planning.design_choice import with_copies
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ThresholdSpec
from mydyno.model.definition.host_groups import HostGroup
from mydyno.model.stored.analyses import Outcome
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study


def markdown(result: StudyResult) -> str:
    """The gate as a comment of a pull request, or a job's summary."""
    return printed(gate_document(result), f"`mydyno gate {code(result.study.study)}`")


WRITERS: dict[str, Callable[[StudyResult], str]] = {"--junit": junit, "--markdown": markdown, "--json": bencher}
CODES: dict[Outcome, ExitCode] = {
    "passed": ExitCode.DONE, "worse": ExitCode.GATE_WORSE, "undecided": ExitCode.GATE_OPEN,
}  # fmt: skip


def run_experiment(
    experiment: Experiment, source_text: str, studies: Path, paths: HostPaths, groups: tuple[HostGroup, ...]
) -> StudyFolder:
    """Run a study that may end as soon as every threshold is decided; its folder."""
    if not groups:
        experiment = with_copies(experiment, paths)
    request = Request(experiment, source_text, studies, ("mydyno", *sys.argv[1:]), is_gate_decided)
    if not groups:
        return run_study_of(partial(run_study, request, paths), experiment)[0]
    # What hosts by SSH need is slow to load.
    from mydyno.fleet.controller import run_on_groups

    return run_study_of(partial(run_on_groups, request, groups, paths), None)[0]


def finish(folder: StudyFolder, thresholds: tuple[ThresholdSpec, ...], files: Mapping[str, Path | None]) -> None:
    """Print the answer, write the files ({option: path}) and the report, and exit with the answer's code."""
    running = is_running(folder)
    summarise(folder, running=running)
    result = StudyResult.load(folder)
    if thresholds != result.study.experiment.thresholds:
        result = replace(result, summary=facts_of(folder, thresholds, running=running))
    for option, path in files.items():
        if path is not None:
            _write(option, path, WRITERS[option](result))
    Paper(sys.stdout).document(gate_document(result))
    print(f"\nreport: {report_of(folder)}")
    assert result.summary.gate is not None
    if exit_code := CODES[result.summary.gate.outcome]:
        raise typer.Exit(exit_code)


def _write(option: str, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror or error}") from error
