"""`mydyno clean`: undo whatever killed studies left on this host."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from mydyno.cli.exit_codes import ExitCode
from mydyno.hosts.left_namespaces import remove_ownerless
from mydyno.hosts.settings import Settings
from mydyno.hosts.undo import stale_journals
from mydyno.model.quantities import format_bytes
from mydyno.servers.templates import folder_bytes


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="clean", help="Undo what a killed study left behind.")(clean)


def clean(
    templates: Annotated[
        bool, typer.Option("--templates", help="Also remove prepared data (made again when needed).")
    ] = False,
) -> None:
    """Undo; exit code 1 where something could not be undone."""
    settings = Settings.resolve()
    left: list[str] = []
    journals = stale_journals(settings.undo)
    for journal in journals:
        owner = journal.owner()
        entries = journal.open_entries()
        print(f"{owner[1] if owner else journal.path.name}: undoing {len(entries)} entries")
        for entry in entries:
            print(f"  {entry.kind}: {', '.join(f'{name} {value}' for name, value in entry.facts.items())}")
        left += journal.undo_all()
        if owner is not None:
            print(f"  finished runs are kept in {owner[2]}; go on with: mydyno resume {owner[2]}")
    removed, untouched = remove_ownerless(settings)
    for name in removed:
        print(f"removed the network namespace {name}, whose journal is gone")
    left += untouched
    if not journals and not removed:
        print("nothing to undo: no killed study is known to this cache")
    folder = settings.data / "templates"
    if templates and folder.is_dir():
        size = folder_bytes(folder)
        shutil.rmtree(folder)
        print(f"removed prepared data: {format_bytes(size)}")
    for what in left:
        print(f"could not be undone: {what}")
    if left:
        raise typer.Exit(ExitCode.STUDY_FAILED)
