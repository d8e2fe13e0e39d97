"""`mydyno servers`: those that mydyno can get by itself, and those that `servers add` took from archives and images."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from mydyno.cli import arguments
from mydyno.cli.streams import print_json, warn
from mydyno.errors import UserError
from mydyno.files.atomic import sha256_of, write_text
from mydyno.hosts.local import LocalHost
from mydyno.hosts.lock import CLEANING, study_lock
from mydyno.hosts.paths import HostPaths, cache_folder
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.definition.problems import NAME_PATTERN, with_guess
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.server_version import ServerVersion
from mydyno.packages.oci_layout import Image, read_image
from mydyno.packages.progress import download, is_url
from mydyno.servers.catalogue import CATALOGUE, CatalogueEntry, get_build, known_servers
from mydyno.servers.compiled.compile import read_builds, remove_build
from mydyno.servers.compiled.record import BuildRecord
from mydyno.servers.dsn import FORM, PASSWORD_VARIABLE, parse_dsn
from mydyno.servers.sources.archive import AddedServer, add_image, add_pulled, read_added
from mydyno.servers.sources.archive import add as add_archive
from mydyno.servers.sources.archive import remove as remove_added
from mydyno.servers.sql import Control
from mydyno.servers.statistics import OptimizerStatistics, read_statistics

group = typer.Typer(help="List the servers that mydyno can download, or download one.", invoke_without_command=True)


@group.callback()
def list_servers(context: typer.Context, as_json: arguments.Json = False, verbose: arguments.Verbose = False) -> None:
    """Every server: version, source, size, state, and what it can."""
    if context.invoked_subcommand is not None:
        return
    paths = HostPaths.resolve()
    known = known_servers()
    rows = [_row(entry, paths) for entry in known.values()]
    if as_json:
        builds = [record.model_dump(mode="json") for record in read_builds(paths.cache).values()]
        print_json({"servers": rows, "builds": builds})
        return
    for row in rows:
        print(f"{row['name']:<14} {row['title']:<36} {_state(row)}")
        print(f"{'':<14} from {row['source']}")
        if not known[row["name"]].version.has_sql:
            continue
        tls = f"TLS {', '.join(row['tls']) or 'none'} · " if row["name"] in CATALOGUE else ""
        print(
            f"{'':<14} {tls}compression {', '.join(row['compression'])} · "
            f"memcached plugin {'yes' if row['memcached'] else 'no'} · huge pages by {row['huge_pages']} · "
            f"malloc of {row['allocator']}"
        )
    _print_builds(read_builds(paths.cache))
    own = next((path for name in ("mariadbd", "mysqld") if (path := shutil.which(name))), None)
    if own is not None:
        print(f"\non PATH: {own}; to use it: --set server.basedir={own.rpartition('/')[0].rpartition('/')[0] or '/'}")
    print(
        "\nAny other MySQL or MariaDB >= 5.5: mydyno servers add NAME --image IMAGE or --archive FILE --sha256 HASH,\n"
        'or an unpacked one: server.basedir = "/path" in the experiment, or --set server.basedir=/path'
    )


def _print_builds(builds: dict[str, BuildRecord]) -> None:
    """The builds from source in the cache, if there are any."""
    if builds:
        print("\nbuilt from source (server.build); mydyno servers remove NAME removes one:")
    for name, record in builds.items():
        day = datetime.fromtimestamp(record.built_unix_ns / 1e9, UTC).date().isoformat()
        print(f"{name}  {ServerVersion.parse(record.version).name}, {format_bytes(record.size_bytes)}, built {day}")
        print(f"{'':<14} {record.words}, from {record.origin}")
        print(f"{'':<14} by {record.toolchain.words}: {record.command}")


def _row(entry: CatalogueEntry, paths: HostPaths) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "source": entry.source.title,
        "download_bytes": entry.source.download_bytes,
        "in_cache": entry.source.present(paths.cache),
        **entry.traits.__dict__,
    }


def _state(row: dict[str, Any]) -> str:
    if row["in_cache"] is not None:
        return f"in the cache, {row['in_cache']}"
    megabytes = row["download_bytes"] / 1e6
    return f"not here yet (download about {megabytes:.{0 if megabytes >= 1 else 1}f} MB)"


@group.command()
def install(
    name: str = typer.Argument(help="A name listed by `mydyno servers`."), verbose: arguments.Verbose = False
) -> None:
    """Download and unpack a server into the cache."""
    known = known_servers()
    if name not in known:
        raise UserError(f"{name}: no such server", with_guess(f"known: {', '.join(known)}", name, known))
    paths = HostPaths.resolve()
    host = LocalHost("servers", paths.server_user)
    build = asyncio.run(get_build(ServerSpec(name=name), paths.cache, host, warn))
    print(f"{name}: {build.version.name} in {build.basedir}")


@group.command()
def add(
    name: Annotated[str, typer.Argument(help="The name by which experiments use it, e.g. mysql-8.4.")],
    archive: Annotated[
        str, typer.Option(help="The vendor's tar archive (.tar.gz, .tar.xz, .tar.bz2).", metavar="FILE|URL")
    ] = "",
    oci: Annotated[
        str, typer.Option(help="Instead of --archive: a container image (OCI image layout).", metavar="FOLDER[:TAG]")
    ] = "",
    image: Annotated[
        str, typer.Option(help="Instead of --archive: an image of a registry, copied by skopeo.", metavar="IMAGE:TAG")
    ] = "",
    sha256: Annotated[
        str,
        typer.Option(help="SHA-256 of the archive, as the vendor states it; of an image: its digest.", metavar="HASH"),
    ] = "",
    verbose: arguments.Verbose = False,
) -> None:
    """Add a server from a vendor's archive or an image, under a chosen name."""
    _check_name(name)
    if sum(map(bool, (archive, oci, image))) != 1:
        raise UserError(
            "one of --archive, --oci and --image is needed",
            "--archive FILE|URL --sha256 HASH, --oci FOLDER:TAG, or --image docker.io/library/mysql:8.4",
        )
    expected = sha256.strip().lower().removeprefix("sha256:")
    if (archive or expected) and not re.fullmatch(r"[0-9a-f]{64}", expected):
        raise UserError(f"--sha256 {sha256}: not a SHA-256", "64 hexadecimal digits; a vendor's MD5 is not enough")
    if archive and not is_url(archive) and not Path(archive).is_file():
        raise UserError(f"--archive {archive}: no such file", "a tar archive on this host, or an http or https URL")
    paths = HostPaths.resolve()
    host = LocalHost("servers", paths.server_user)
    if image:
        added = asyncio.run(_pulled(name, image, expected, paths, host))
    elif oci:
        added = asyncio.run(add_image(name, _image(oci, expected), paths.cache, host, warn))
    else:
        added = asyncio.run(_add(name, archive, expected, paths, host))
    print(f'{name}: {added.title} from {added.archive_name}; in an experiment: server.name = "{name}"')


def _image(oci: str, expected: str) -> Image:
    """The image that FOLDER[:TAG] names; a folder may have a colon in its name."""
    folder, tag = (oci, "") if Path(oci).is_dir() else (oci.rpartition(":")[0], oci.rpartition(":")[2])
    if not folder or not Path(folder).is_dir():
        raise UserError(
            f"--oci {oci}: no such folder", "an OCI image layout: skopeo copy docker://IMAGE oci:FOLDER:TAG"
        )
    image = read_image(Path(folder).resolve(), tag)
    _check_digest(f"--oci {oci}", image, expected)
    return image


def _check_digest(named: str, image: Image, expected: str) -> None:
    if expected not in ("", image.digest.partition(":")[2]):
        raise UserError(f"{named} is {image.digest}, not sha256:{expected}; nothing was unpacked")
    if not expected:
        warn(f"{named} is {image.digest} now; --sha256 {image.digest} accepts no other")


async def _pulled(name: str, reference: str, expected: str, paths: HostPaths, host: LocalHost) -> AddedServer:
    def check(image: Image) -> None:
        _check_digest(f"--image {reference}", image, expected)

    return await add_pulled(name, reference, paths.cache, host, warn, check)


async def _add(name: str, archive: str, expected: str, paths: HostPaths, host: LocalHost) -> AddedServer:
    if not is_url(archive):
        path = Path(archive).resolve()
        await _check_hash(path, archive, expected)
        return await add_archive(name, path, str(path), expected, paths.cache, host, warn)
    paths.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=paths.cache, prefix=".download-") as folder:
        path = Path(folder) / (archive.partition("?")[0].rpartition("/")[2] or "archive")
        await download(archive, path, warn)
        await _check_hash(path, archive, expected)
        return await add_archive(name, path, archive, expected, paths.cache, host, warn)


async def _check_hash(path: Path, archive: str, expected: str) -> None:
    found = await asyncio.to_thread(sha256_of, path)
    if found != expected:
        raise UserError(
            f"{archive} has SHA-256 {found}, not {expected}; nothing was unpacked",
            "is the download complete, and the hash that of this file?",
        )


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise UserError(f"{name}: not a possible name", "letters, digits, '.', '_' and '-', at most 48")
    if name in CATALOGUE:
        raise UserError(f"{name} is a server of the catalogue", f"another name, e.g. my-{name}")
    if name in read_added(cache_folder()):
        raise UserError(f"a server {name} was added already", f"mydyno servers remove {name}")


@group.command()
def remove(name: Annotated[str, typer.Argument(help="Name of an added server, or of a build.")]) -> None:
    """Remove a server that was added, or a build from source."""
    cache = cache_folder()
    added, builds = read_added(cache), read_builds(cache)
    if name in CATALOGUE:
        raise UserError(f"{name} is a server of the catalogue and cannot be removed", "only what was added can")
    if name not in added and name not in builds:
        known = [*added, *builds]
        hint = with_guess(f"added or built: {', '.join(known) or 'none'}", name, known)
        raise UserError(f"{name}: no such server was added or built", hint)
    with study_lock(CLEANING, HostPaths.resolve().study_lock_address):
        (remove_build if name in builds else remove_added)(name, cache)
    print(f"{name} is removed")


@group.command()
def statistics(
    dsn: Annotated[str, typer.Argument(metavar="DSN", help=f"{FORM}; the password: {PASSWORD_VARIABLE}")],
    output: Annotated[
        Path,
        typer.Option("--output", help="the file; the server is only read", callback=arguments.check_replaced),
    ],
    verbose: arguments.Verbose = False,
) -> None:
    """Write a schema's optimizer statistics to a file, for data.statistics of an experiment."""
    address = parse_dsn(dsn)

    async def read() -> OptimizerStatistics:
        async with Control(address) as control:
            return await read_statistics(control, address.database)

    found = asyncio.run(read())
    write_text(output, f"{found.model_dump_json(indent=1)}\n")
    histograms = sum(len(table.histograms) for table in found.tables.values())
    print(f"{output}: {len(found.tables)} tables of {address.database}, {histograms} histograms, {found.server}")
