"""`mydyno servers`: those that mydyno can get by itself; `mydyno servers install NAME` gets one ahead of a run."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import typer

from mydyno.cli import arguments
from mydyno.cli.output import print_json
from mydyno.cli.verbosity import set_verbosity
from mydyno.cli.watcher import warn
from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.experiment import ServerSpec
from mydyno.model.problems import nearest
from mydyno.servers.catalogue import CATALOGUE, CatalogueEntry, get_build


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="List the servers that mydyno can download, or download one.", invoke_without_command=True)
    group.callback()(list_servers)
    group.command(name="install", help="Download and unpack a server into the cache.")(install)
    app.add_typer(group, name="servers")


def list_servers(context: typer.Context, as_json: arguments.Json = False, verbose: arguments.Verbose = False) -> None:
    """Every server: version, source, size, state, and what it can."""
    set_verbosity(verbose)
    if context.invoked_subcommand is not None:
        return
    paths = HostPaths.resolve()
    rows = [_row(entry, paths) for entry in CATALOGUE.values()]
    if as_json:
        print_json({"servers": rows})
        return
    for row in rows:
        print(f"{row['name']:<14} {row['title']:<36} {_state(row)}")
        print(f"{'':<14} from {row['source']}")
        if not CATALOGUE[row["name"]].version.has_sql:
            continue
        print(
            f"{'':<14} TLS {', '.join(row['tls']) or 'none'} · compression {', '.join(row['compression'])} · "
            f"memcached plugin {'yes' if row['memcached'] else 'no'} · huge pages by {row['huge_pages']} · "
            f"malloc of {row['allocator']}"
        )
    own = next((path for name in ("mariadbd", "mysqld") if (path := shutil.which(name))), None)
    if own is not None:
        print(f"\non PATH: {own}; to use it: --set server.basedir={own.rpartition('/')[0].rpartition('/')[0] or '/'}")
    print(
        '\nAny other MySQL or MariaDB >= 5.5: server.basedir = "/path" in the experiment, or --set server.basedir=/path'
    )


def _row(entry: CatalogueEntry, paths: HostPaths) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "source": entry.source.title,
        "download_bytes": entry.download_bytes,
        "in_cache": entry.source.present(paths.cache),
        **entry.traits.__dict__,
    }


def _state(row: dict[str, Any]) -> str:
    if row["in_cache"] is not None:
        return f"in the cache, {row['in_cache']}"
    megabytes = row["download_bytes"] / 1e6
    return f"not here yet (download about {megabytes:.{0 if megabytes >= 1 else 1}f} MB)"


def install(
    context: typer.Context,
    name: str = typer.Argument(help="A name listed by `mydyno servers`."),
    verbose: arguments.Verbose = False,
) -> None:
    """Get one server."""
    set_verbosity(verbose or bool(context.parent and context.parent.params.get("verbose")))
    if name not in CATALOGUE:
        guess = nearest(name, CATALOGUE)
        hint = f"known: {', '.join(CATALOGUE)}" + (f"; did you mean {guess}?" if guess else "")
        raise UserError(f"{name}: no such server", hint)
    paths = HostPaths.resolve()
    host = LocalHost("servers", paths.server_user)
    build = asyncio.run(get_build(ServerSpec(name=name), paths.cache, host, warn))
    print(f"{name}: {build.version.name} in {build.basedir}")
