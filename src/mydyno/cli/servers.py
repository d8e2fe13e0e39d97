"""`mydyno servers`: those that mydyno can get by itself; `mydyno servers install NAME` gets one ahead of a run."""

from __future__ import annotations

import asyncio

import typer

from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import ServerSpec
from mydyno.model.problems import nearest
from mydyno.parts.debian import DebianPackages
from mydyno.servers.catalogue import CATALOGUE, get_build


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="List the servers that mydyno can get, or get one.", invoke_without_command=True)
    group.callback()(list_servers)
    group.command(name="install", help="Download and unpack a server into the cache.")(install)
    app.add_typer(group, name="servers")


def list_servers(context: typer.Context) -> None:
    """One line a server."""
    if context.invoked_subcommand is not None:
        return
    settings = Settings.resolve()
    packages = DebianPackages(settings.cache, LocalHost("servers", None))
    for entry in CATALOGUE.values():
        present = packages.present(entry.packages)
        if present is None:
            state = f"not here yet (download about {entry.download_bytes / 1e6:.0f} MB)"
        else:
            state = f"in the cache, {present.versions[entry.packages[0]]}"
        print(f"{entry.name:<16} {entry.title:<32} {state}")
    print(
        'Any other MySQL or MariaDB >= 5.5: server.basedir = "/path" in the experiment, or --set server.basedir=/path'
    )


def install(name: str = typer.Argument(help="A name from `mydyno servers`.")) -> None:
    """Get one server."""
    if name not in CATALOGUE:
        guess = nearest(name, CATALOGUE)
        hint = f"known: {', '.join(CATALOGUE)}" + (f"; did you mean {guess}?" if guess else "")
        raise UserError(f"{name}: no such server", hint)
    settings = Settings.resolve()
    build = asyncio.run(get_build(ServerSpec(name=name), settings.cache, LocalHost("servers", None)))
    print(f"{name}: {build.version.name} in {build.basedir}")
