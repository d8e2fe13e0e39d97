"""`mydyno history EXPERIMENT|STUDY…`: effects and levels of an experiment over all its studies on one host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mydyno.across.history import FoundStudies, Selection, find_studies, history_of, read_studies
from mydyno.across.history_document import history_document
from mydyno.across.saved import SavedStudy
from mydyno.cli import arguments
from mydyno.cli.across_output import Format, Output, chosen_format, deliver
from mydyno.cli.streams import warn_of_damage
from mydyno.errors import UserError
from mydyno.store.study_folder import is_study


def history(
    what: Annotated[
        list[str],
        typer.Argument(
            help="An experiment's name, one of its studies, or the studies to include.", metavar="EXPERIMENT|STUDY"
        ),
    ],
    arm: Annotated[str | None, typer.Option(help="Only this arm: its effect and its level.", metavar="ARM")] = None,
    step: Annotated[
        str | None, typer.Option(help="Only this load level, e.g. oltp_read_only-64.", metavar="STEP")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="This metric; default: the primary one.", metavar="METRIC")] = None,
    host: Annotated[
        str | None,
        typer.Option(help="This host's studies; default: that of the study named, or of the newest.", metavar="HOST"),
    ] = None,
    format_: Format = None,
    output: Output = None,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
) -> None:
    """Show an experiment over all its studies on one host, and where it changed."""
    chosen = chosen_format(format_, output)
    found, experiment, named_host = _found(what, studies)
    for one in found.studies:
        warn_of_damage(one.folder)
    made = history_of(found, experiment, Selection(arm, step, metric, host or named_host))
    deliver(made, history_document(made), chosen, output)


def _found(what: list[str], studies: Path) -> tuple[FoundStudies, str, str | None]:
    """(the studies to read, the experiment, the host): a study stands for all of its experiment on its host, several
    studies stand for themselves.
    """
    paths = [arguments.study_path(one, studies) for one in what]
    named = [is_study(path) for path in paths]
    if len(what) == 1:
        if named[0]:
            one = SavedStudy.read(paths[0])
            return find_studies(paths[0].resolve().parent), one.summary.experiment, one.host
        if "/" in what[0]:
            raise UserError(f"{what[0]} is not a study: it has no study.json", "`mydyno list` lists the studies")
        if not studies.is_dir():
            raise UserError(f"the folder of the studies, {studies}, does not exist", "--studies DIR names another")
        return find_studies(studies), what[0], None
    for name, path, is_named in zip(what, paths, named, strict=True):
        if not is_named:
            raise UserError(
                f"{path} is not a study: it has no study.json", f"name one experiment, or studies; what is {name}?"
            )
    found = read_studies(paths)
    experiments = dict.fromkeys(study.summary.experiment for study in found.studies)
    if len(experiments) > 1:
        raise UserError(
            f"these studies are of several experiments: {', '.join(experiments)}", "a history is of one experiment"
        )
    if not experiments:
        reasons = "; ".join(f"{one.study}: {one.reason}" for one in found.unreadable)
        raise UserError(f"none of these studies can be read ({reasons})")
    return found, next(iter(experiments)), None
