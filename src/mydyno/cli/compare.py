"""`mydyno compare A B …`: compare studies, or arms of one study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mydyno.across.arms import arms_document, compare_arms
from mydyno.across.compare import compare_studies
from mydyno.across.comparison import comparison_document
from mydyno.across.history import studies_beside
from mydyno.across.saved import SavedStudy
from mydyno.cli import arguments
from mydyno.cli.across_output import Format, Output, chosen_format, deliver
from mydyno.cli.streams import warn_of_damage
from mydyno.errors import UserError


def compare(
    study: Annotated[
        list[str],
        typer.Argument(
            help="Studies: folders, or names below the studies folder. The first is the reference.", metavar="STUDY"
        ),
    ],
    arms: Annotated[
        str | None, typer.Option(help="Compare these arms of one study; the first is the reference.", metavar="ARM,ARM")
    ] = None,
    format_: Format = None,
    output: Output = None,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
) -> None:
    """Compare studies, or arms of one study."""
    chosen = chosen_format(format_, output)
    if arms is not None and len(study) > 1:
        raise UserError("--arms compares arms of one study", "mydyno compare STUDY --arms a,b")
    if arms is None and len(study) < 2:
        raise UserError("compare needs two studies or more", f"mydyno compare {study[0]} STUDY, or --arms a,b")
    saved = [SavedStudy.read(_path(one, studies)) for one in study]
    for one in saved:
        warn_of_damage(one.folder)
    whole = chosen == "html"
    if arms is not None:
        side = compare_arms(saved[0], [arm.strip() for arm in arms.split(",") if arm.strip()])
        deliver(side, arms_document(side, whole), chosen, output)
        return
    made = compare_studies(saved, studies_beside(saved))
    if not made.comparable:
        raise UserError(
            made.answer[0].rstrip("."), "each effect needs the same load level, arm, control and metric in all"
        )
    deliver(made, comparison_document(made, whole), chosen, output)


def _path(study: str, studies: Path) -> Path:
    """The study's folder, with a name also where it is given as "."."""
    path = arguments.study_path(study, studies)
    return path if path.name else path.resolve()
