"""`mydyno report STUDY`: make a study's report again, from its folder alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mydyno.cli import arguments
from mydyno.cli.streams import warn, warn_of_damage
from mydyno.errors import UserError
from mydyno.evaluation.facts import summarise
from mydyno.hosts.paths import check_writable
from mydyno.model.definition.problems import with_guess
from mydyno.reports import FORMATS, write
from mydyno.store.study_folder import StudyFolder
from mydyno.web.index import live_status


def report(
    study: arguments.Study,
    format_: Annotated[str, typer.Option("--format", help="html, md, csv or json.", metavar="FORMAT")] = "html",
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Leave out the values of the statements that were compared.")
    ] = False,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
) -> None:
    """Write a study's report again: html, md, csv, json."""
    if format_ not in FORMATS:
        raise UserError(f"--format {format_}: unknown; allowed: {', '.join(FORMATS)}", with_guess("", format_, FORMATS))
    folder = StudyFolder.open(arguments.study_path(study, studies))
    if anonymise and not folder.study().experiment.compares_statements:
        raise UserError("--anonymise: this study compares no statements")
    warn_of_damage(folder)
    check_writable(folder.path, "the study folder")
    summarise(folder, running=is_running(folder))
    made = write(folder, format_, anonymise)
    if isinstance(made, Path):
        print(made)
    else:
        sys.stdout.write(made)


def is_running(folder: StudyFolder) -> bool:
    """Whether a process makes the study's runs now; a line on stderr says so."""
    running = live_status(folder.path).kind in ("running", "elsewhere")
    if running:
        warn(f"mydyno: warning: the study is running, and continues without `mydyno resume {folder.path.name}`")
    return running
