"""`mydyno clean`: undo whatever killed studies left on this host."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from mydyno.cli import ExitCode, arguments
from mydyno.errors import HostError, UserError
from mydyno.hosts.lock import CLEANING, study_lock
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import (
    left_studies,
    old_versions,
    privileged_files,
    remove_left,
    remove_ownerless,
    remove_version,
    stale_journals,
    take_privileges,
)
from mydyno.model.definition.quantities import format_bytes
from mydyno.servers import external_variables
from mydyno.servers.templates import folder_bytes


def clean(
    templates: Annotated[
        bool, typer.Option("--templates", help="Also remove prepared data (recreated when needed).")
    ] = False,
    versions: Annotated[
        bool,
        typer.Option(
            "--versions",
            help="Also remove engines, build files and Python environments of other versions from the cache "
            "(recreated when needed).",
        ),
    ] = False,
    hosts: Annotated[
        str | None, typer.Option(help="Clean other hosts, named as for `mydyno hosts prepare`.", metavar="HOSTS")
    ] = None,
    data: arguments.Data = None,
    verbose: arguments.Verbose = False,
) -> None:
    """Undo what a killed study left on this host."""
    if hosts is not None and versions:
        raise UserError("--versions: not with --hosts", "`mydyno hosts prepare` replaces what it installed on a host")
    if hosts is not None:
        # asyncssh is slow to load.
        from mydyno.cli.hosts import clean_hosts

        clean_hosts(hosts, templates, data)
        return
    clean_here(HostPaths.resolve(data), templates, versions)


def clean_here(paths: HostPaths, templates: bool = False, versions: bool = False) -> None:
    """Undo on this host, and print what. Raises typer.Exit where something could not be undone."""
    left: list[str] = []
    journals = stale_journals(paths.undo, paths.root)
    for journal in journals:
        owner = journal.owner()
        entries = journal.open_entries()
        print(f"{owner[1] if owner else journal.path.name}: undoing {len(entries)} entries")
        for entry in entries:
            print(f"  {entry.kind}: {', '.join(f'{name} {value}' for name, value in entry.facts.items())}")
        left += journal.undo_all()
        if {entry.kind for entry in journal.open_entries()} == {external_variables.KIND}:
            print(f"  if the server of these variables no longer exists: rm {shlex.quote(str(journal.path))}")
        if owner is not None and (Path(owner[2]) / "study.json").is_file():
            print(f"  finished runs are kept in {owner[2]}; to continue: mydyno resume {owner[2]}")
    removed, untouched = remove_ownerless(paths)
    for name in removed:
        print(f"removed the network namespace {name}, whose undo journal no longer exists")
    left += untouched
    studies = left_studies(paths.cache)
    for study in studies:
        if not study.is_quiet:
            print(f"kept {study}: it may be in use")
            continue
        remains = remove_left(study)
        left += [] if remains is None else [remains]
        print(f"removed {study}: a mydyno on another host left it")
    privileged = privileged_files(paths.cache)
    for path in privileged:
        take_privileges(path)
        print(f"took the set-user-ID bit of {path} away" if path.exists() else f"removed the device {path}")
    if not journals and not removed and not studies and not privileged:
        print("nothing to undo: this cache has no killed study")
    left += _remove_recreatable(paths, templates, versions)
    for what in left:
        print(f"could not be undone: {what}")
    if left:
        raise typer.Exit(ExitCode.STUDY_FAILED)


def _remove_recreatable(paths: HostPaths, templates: bool, versions: bool) -> list[str]:
    """Remove what was asked for; returns what could not be removed."""
    left: list[str] = []
    folder = paths.data / "templates"
    if templates and folder.is_dir():
        try:
            with study_lock(CLEANING, paths.study_lock_address):
                size = folder_bytes(folder)
                shutil.rmtree(folder)
            print(f"removed prepared data: {format_bytes(size)}")
        except HostError as error:
            left.append(f"prepared data: {error.message}")
    for version in old_versions(paths.cache, paths.engine, Path(sys.prefix)) if versions else ():
        if version.is_used:
            print(f"kept {version.path}: it is in use")
            continue
        remains = remove_version(version)
        left += [] if remains is None else [remains]
        if remains is None:
            print(f"removed {version.path}: {format_bytes(version.size_bytes)}")
    return left
