"""A fresh data directory: by the server's own --initialize-insecure, or by its own bootstrap SQL fed to --bootstrap.

The second is what mysql_install_db and mariadb-install-db do; without them no perl, and no loader but the build's own,
is needed, and every version is initialised alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from mydyno.errors import ServerError
from mydyno.hosts.headway import Headway
from mydyno.hosts.local import Completed
from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.server_options import plain_name
from mydyno.servers.build import ServerBuild, first_existing
from mydyno.servers.my_cnf import option_value
from mydyno.servers.running.base import CONTROL_USER, LOAD_SCHEMA, LOAD_USER
from mydyno.servers.running.mysqld import ACCOUNT_HOSTS, MysqldServer
from mydyno.servers.running.private import START_TIMEOUT_S, of_a_failure
from mydyno.servers.variables_by_version import adapt_variables

NEEDED_SQL = ("system_tables", "system_tables_data")
BOOTSTRAP_SQL = (
    "mariadb_{}.sql", "mysql_{}.sql",
)  # fmt: skip
"""MariaDB renamed its files with 11; the order of the parts is mariadb-install-db's."""
INITIAL_PREFIXES = ("lower_case_table_names", "early_plugin_load", "plugin_load", "file_key_management", "keyring")
"""Variables beside InnoDB's that must be known already at the initialisation: MySQL >= 8.0 stores the case of names in
its dictionary, and files are encrypted from the first on, with a plugin's keys."""
PARTS = ("system_tables", "performance_tables", "system_tables_data", "sys_schema")


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
    await _make_accounts(instance)


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
        path = _bootstrap_file(build.messages, part)
        if path is None and part in NEEDED_SQL:
            raise ServerError(f"{build.messages} has no mysql_{part}.sql", "is the server unpacked completely?")
        if path is not None:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            texts.append("".join(line for line in lines if "@current_hostname" not in line))
    return "\n".join(texts)


def _bootstrap_file(share: Path, part: str) -> Path | None:
    return first_existing(share, *(name.format(part) for name in BOOTSTRAP_SQL))


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
    warning = await instance.stop()
    if warning:
        raise ServerError(f"after initialisation: {warning}")
