"""Templates: a data directory prepared once, stopped cleanly, and copied for each run, so that all start from the same
bytes. One per (server build, settings that shape data, data spec); kept in the data folder across studies.

A fresh data directory is made by the server's own --initialize-insecure, or by its own bootstrap SQL fed to
--bootstrap. The second is what mysql_install_db and mariadb-install-db do; without them no perl, and no loader but the
build's own, is needed, and every version is initialised alike.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from mydyno.errors import HostError, ServerError
from mydyno.files.atomic import give_all, remove_tree, write_text
from mydyno.hosts.local import Completed, LocalHost
from mydyno.hosts.quiet import Headway
from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.definition.server_options import option_name, plain_name
from mydyno.servers.build import ServerBuild, first_existing
from mydyno.servers.my_cnf import adapt_variables, option_value
from mydyno.servers.running.base import CONTROL_USER, LOAD_SCHEMA, LOAD_USER
from mydyno.servers.running.mysqld import ACCOUNT_HOSTS, MysqldServer
from mydyno.servers.running.private import START_TIMEOUT_S, PrivateServer, of_a_failure
from mydyno.servers.sql import Control
from mydyno.servers.time_zones import FOLDER, time_zone_sql

TEMPLATE_FORMAT = 7
INITIAL_PREFIXES = ("lower_case_table_names", "early_plugin_load", "plugin_load", "file_key_management", "keyring")
"""Variables beside InnoDB's that must be known already at the initialisation: MySQL >= 8.0 stores the case of names in
its dictionary, and files are encrypted from the first on, with a plugin's keys."""
PARTS = ("system_tables", "performance_tables", "system_tables_data", "sys_schema")
SHAPING_PREFIXES = (
    "innodb_page_size",
    "innodb_data_file_path",
    "innodb_data_home_dir",
    "innodb_file_per_table",
    "innodb_file_format",
    "innodb_large_prefix",
    "innodb_default_row_format",
    "innodb_checksum_algorithm",
    "innodb_log_file_size",
    "innodb_log_files_in_group",
    "innodb_redo_log_capacity",
    "innodb_undo",
    "innodb_compression",
    "innodb_encrypt",
    "innodb_fill_factor",
    "innodb_rollback_segments",
    "innodb_log_group_home_dir",
    "innodb_dedicated_server",
    "innodb_redo_log_encrypt",
    "innodb_default_encryption_key_id",
    "character_set_server",
    "collation_server",
    "default_table_encryption",
    "default_storage_engine",
    "enforce_storage_engine",
    "log_bin",
    "innodb_stats_persistent",
    "innodb_stats_method",
    "innodb_stats_include_delete_marked",
    "use_stat_tables",
    "analyze_sample_percentage",
    "histogram_",
    "innodb_ft_",
    "ft_",
    "ngram_",
    "sql_generate_invisible_primary_key",
    "character_set_collations",
    *INITIAL_PREFIXES,
)
"""Server variables that change the files of a fresh data directory, or what is made of the data once: tables, full-text
indexes, the optimizer's statistics."""
NEEDED_SQL = ("system_tables", "system_tables_data")
BOOTSTRAP_SQL = (
    "mariadb_{}.sql", "mysql_{}.sql",
)  # fmt: skip
"""MariaDB renamed its files with 11; the order of the parts is mariadb-install-db's."""


@dataclass(frozen=True)
class Template:
    """A prepared data directory."""

    folder: Path
    size_bytes: int
    failure: str = ""
    """Why there is none: each copy of it fails with this."""

    @property
    def data(self) -> Path:
        """The data directory itself."""
        return self.folder / "data"


def shaping_variables(variables: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The variables among these that shape the data files."""
    return {
        option_name(name): value for name, value in variables.items() if plain_name(name).startswith(SHAPING_PREFIXES)
    }


def template_key(build: ServerBuild, shaping: Mapping[str, Scalar], label: str, data: Mapping[str, object]) -> str:
    """The name of a template's folder: readable, and different whenever the bytes would be.

    `label` names the data for people; `data` holds everything that shapes them.
    """
    facts = {
        "format": TEMPLATE_FORMAT,
        "build": build.identity,
        "shaping": {name: option_value(value) for name, value in sorted(shaping.items())},
        "data": dict(data),
        "time_zones": FOLDER.stat().st_mtime_ns if FOLDER.is_dir() else 0,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    return f"{quote(build.name, safe='')}-{label}-{digest}"


def present_template(root: Path, key: str) -> Template | None:
    """The template of that key, if it is complete."""
    facts = root / key / "template.json"
    if not facts.is_file():
        return None
    return Template(root / key, int(json.loads(facts.read_text())["size_bytes"]))


async def build_template(
    root: Path, key: str, instance: MysqldServer, fill: Callable[[MysqldServer], Awaitable[None]]
) -> Template:
    """Initialise, start, fill, purge, stop, keep. `instance.folder` must be `root/.KEY.new`.

    Raises ServerError and what `fill` raises; nothing half-made is left under the template's name.
    """
    aside = instance.folder
    try:
        await initialise(instance)
        await instance.start()
        try:
            await fill(instance)
            async with instance.control() as control:
                # A slow shutdown purges and merges, so that no run begins with another's leftovers.
                await control.rows("SET GLOBAL innodb_fast_shutdown = 0")
        finally:
            warning = await instance.stop()
        if warning:
            raise ServerError(f"while preparing data: {warning}")
        for name in ("ib_buffer_pool", "auto.cnf"):
            (instance.data / name).unlink(missing_ok=True)
        size_bytes = folder_bytes(instance.data)
        write_text(aside / "template.json", json.dumps({"key": key, "size_bytes": size_bytes}))
        if instance.owner() is not None:
            give_all(aside, (os.getuid(), os.getgid()))  # the next study that has these ids must not change it
        final = root / key
        remove_tree(final)
        aside.rename(final)
        return Template(final, size_bytes)
    finally:
        remove_tree(aside)


async def copy_template(template: Template, instance: PrivateServer, host: LocalHost) -> None:
    """Create the instance's own copy of the data; blocks are shared if the file system supports it (reflink).

    Raises HostError if the disk is too full or an earlier copy cannot be removed, before a byte is copied, and
    ServerError if the data could not be prepared.
    """
    if template.failure:
        raise ServerError(template.failure)
    free_bytes = shutil.disk_usage(template.folder).free
    if free_bytes < template.size_bytes * 1.1 + (256 << 20):
        raise HostError(
            f"{format_bytes(free_bytes)} free on the disk of {template.folder.parent}, "
            f"a copy of the data needs {format_bytes(template.size_bytes)}",
            "free some space, or use another disk: --data DIR",
        )
    instance.make_anew()
    copied = await host.run(
        ["cp", "--archive", "--reflink=auto", str(template.data), str(instance.data)], unbounded=True
    )
    if copied.exit_code:
        raise HostError(f"the data could not be copied: {copied.output.strip()}")
    if (owner := instance.owner()) is not None:
        give_all(instance.data, owner)
    # Written out now, so that the copy's own write-back is not measured.
    await host.run(["sync", "--file-system", str(instance.data)], unbounded=True)


def folder_bytes(folder: Path) -> int:
    """Bytes that the files below the folder occupy on disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def initial_options(variables: Mapping[str, Scalar]) -> list[str]:
    """Options of those variables that an initialisation needs, in the spelling that they have."""
    return [
        f"--{name}={option_value(value)}"
        for name, value in variables.items()
        if plain_name(name).startswith(("innodb_", *INITIAL_PREFIXES))
    ]


async def initialise(instance: MysqldServer) -> None:
    """A fresh data directory with mydyno's accounts and no others that need no password; the server is left stopped.

    Raises ServerError with the messages of the server's own initialisation.
    """
    instance.make_anew("tmp", "data")
    build = instance.build
    base = adapt_variables(instance.settings.base, build.version, build.variables).variables
    options = [
        f"--basedir={build.basedir}",
        f"--datadir={instance.data}",
        f"--tmpdir={instance.folder / 'tmp'}",
        f"--lc-messages-dir={build.messages}",
        f"--plugin-dir={build.plugins}",
        *initial_options({**base, **instance.settings.variables}),
    ]
    done = await (_by_itself(instance, options) if build.version.initialises_itself else _bootstrap(instance, options))
    if done.exit_code or not (instance.data / "mysql").is_dir():
        lines = "".join(f"\n  error log: {line}" for line in of_a_failure(done.output.strip().splitlines()))
        raise ServerError(f"{build.name}: initialisation failed with exit code {done.exit_code}{lines}")
    settings = instance.settings
    # With the name of a time zone a server starts when its tables are there.
    base, own = map(_without_time_zone, (settings.base, settings.variables))
    instance.settings = replace(settings, base=base, variables=own)
    try:
        await _make_accounts(instance)
    finally:
        instance.settings = settings


def _without_time_zone(variables: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: value for name, value in variables.items() if plain_name(name) != "default_time_zone"}


async def _by_itself(instance: MysqldServer, options: list[str]) -> Completed:
    build = instance.build
    return await instance.host.run(
        [*build.command, "--no-defaults", "--initialize-insecure", *options],
        environment=build.environment,
        cwd=build.basedir,
        as_server=True,
        folders=[*build.folders, instance.folder],
        timeout_s=START_TIMEOUT_S,
        unbounded=True,
    )


async def _bootstrap(instance: MysqldServer, options: list[str]) -> Completed:
    build = instance.build
    script = instance.folder / "bootstrap.sql"
    script.write_text(bootstrap_sql(build))
    with script.open("rb") as source:
        process = await instance.host.start(
            [*build.command, "--no-defaults", "--bootstrap", *options, "--max_allowed_packet=8M"],
            environment=build.environment,
            cwd=build.basedir,
            as_server=True,
            folders=[*build.folders, instance.folder],
            stdin=source.fileno(),
            stdout=asyncio.subprocess.PIPE,
        )
    try:
        output, _ = await Headway(process.pid, START_TIMEOUT_S).wait(process.streams.communicate())
    except TimeoutError:
        return Completed(process.argv, 124, f"did nothing for {START_TIMEOUT_S:.0f} s")
    finally:
        await process.end(0.0)
        script.unlink(missing_ok=True)
    return Completed(process.argv, process.exit_code or 0, (output or b"").decode(errors="replace"))


def bootstrap_sql(build: ServerBuild) -> str:
    """The SQL that fills the mysql schema of a new data directory, from the build's share folder. Raises ServerError.

    Lines with @current_hostname are left out, as the servers' own scripts do for a data directory that is made for
    another host: they would only add accounts, which are dropped afterwards. The help tables stay empty.
    """
    texts = ["CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"]
    for part in PARTS:
        path = first_existing(build.messages, *(name.format(part) for name in BOOTSTRAP_SQL))
        if path is None and part in NEEDED_SQL:
            raise ServerError(f"{build.messages} has no mysql_{part}.sql", "is the server unpacked completely?")
        if path is not None:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            texts.append("".join(line for line in lines if "@current_hostname" not in line))
    return "\n".join(texts)


async def _make_accounts(instance: MysqldServer) -> None:
    """By --init-file at a first start: no moment at which root without a password can be reached over a port."""
    control = [f"'{CONTROL_USER}'@'{host}'" for host in ACCOUNT_HOSTS]
    load = [f"'{LOAD_USER}'@'{host}'" for host in ACCOUNT_HOSTS]
    statements = [f"CREATE USER {account}" for account in [*control, *load]]
    statements += [f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION" for account in control]
    statements += [f"GRANT ALL PRIVILEGES ON `{LOAD_SCHEMA}`.* TO {account}" for account in load]
    await instance.start(before_passwords=statements)
    async with instance.control() as connection:
        # Not in the init file, which MySQL 8 executes with the character set that it was compiled with.
        await connection.rows(f"CREATE DATABASE IF NOT EXISTS `{LOAD_SCHEMA}`")
        keep = {CONTROL_USER, LOAD_USER, "mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys"}
        for user, host in await connection.rows("SELECT User, Host FROM mysql.user"):
            if str(user) not in keep:
                await connection.rows(f"DROP USER '{user}'@'{host}'")
        await _name_time_zones(instance, connection)
    warning = await instance.stop()
    if warning:
        raise ServerError(f"after initialisation: {warning}")


async def _name_time_zones(instance: MysqldServer, connection: Control) -> None:
    """A server that does not take them is used without."""
    statements = await asyncio.to_thread(time_zone_sql)
    if not statements:
        instance.say(f"named time zones are unknown to the servers: this host has none in {FOLDER}")
    try:
        await connection.rows("SET sql_log_bin = 0")
        for statement in statements:
            await connection.rows(statement)
    except ServerError as error:
        instance.say(f"named time zones are unknown to {instance.build.name}: {error.message}")
