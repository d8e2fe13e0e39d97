"""`mydyno collect STUDY`: the report of a study whose blocks were executed by a batch system."""

from __future__ import annotations

import typer

from mydyno.cli import arguments
from mydyno.cli.output import warn_of_damage
from mydyno.cli.streams import warn
from mydyno.cli.study_runner import finish
from mydyno.cli.verbosity import set_verbosity
from mydyno.errors import UserError
from mydyno.evaluation.facts import summarise
from mydyno.store.study_folder import StudyFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="collect", help="Report on a study whose blocks were executed by Slurm or Kubernetes.")(collect)


def collect(
    study: arguments.Study,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
    as_json: arguments.Json = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Summarise the blocks that are there, name those that are missing, and print the answer."""
    set_verbosity(verbose)
    folder = StudyFolder.open(arguments.study_path(study, studies))
    warn_of_damage(folder)
    blocks = [block.block for block in folder.plan().blocks]
    missing = [block for block in blocks if not folder.is_block_complete(block)]
    if len(missing) == len(blocks):
        raise UserError(
            f"{folder.name}: none of its {len(blocks)} blocks is finished",
            f"each is made by: mydyno block {folder.path} --block N",
        )
    if missing:
        numbers = ", ".join(map(str, missing))
        warn(f"mydyno: {len(blocks) - len(missing)} of {len(blocks)} blocks are finished; missing: {numbers}")
    finish(folder, summarise(folder), as_json)
