"""`mydyno clean`: undo whatever killed studies left on this host."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from mydyno.cli import arguments
from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.verbosity import set_verbosity
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.stale_namespaces import remove_ownerless
from mydyno.hosts.undo import stale_journals
from mydyno.model.quantities import format_bytes
from mydyno.servers.templates import folder_bytes


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="clean", help="Undo what a killed study left on this host.")(clean)


def clean(
    templates: Annotated[
        bool, typer.Option("--templates", help="Also remove prepared data (recreated when needed).")
    ] = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Undo; exit code 1 where something could not be undone."""
    set_verbosity(verbose)
    paths = HostPaths.resolve()
    left: list[str] = []
    journals = stale_journals(paths.undo)
    for journal in journals:
        owner = journal.owner()
        entries = journal.open_entries()
        print(f"{owner[1] if owner else journal.path.name}: undoing {len(entries)} entries")
        for entry in entries:
            print(f"  {entry.kind}: {', '.join(f'{name} {value}' for name, value in entry.facts.items())}")
        left += journal.undo_all()
        if owner is not None:
            print(f"  finished runs are kept in {owner[2]}; to continue: mydyno resume {owner[2]}")
    removed, untouched = remove_ownerless(paths)
    for name in removed:
        print(f"removed the network namespace {name}, whose undo journal no longer exists")
    left += untouched
    if not journals and not removed:
        print("nothing to undo: this cache has no killed study")
    folder = paths.data / "templates"
    if templates and folder.is_dir():
        size = folder_bytes(folder)
        shutil.rmtree(folder)
        print(f"removed prepared data: {format_bytes(size)}")
    for what in left:
        print(f"could not be undone: {what}")
    if left:
        raise typer.Exit(ExitCode.STUDY_FAILED)
