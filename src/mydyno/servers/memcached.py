"""A memcached: the program on disk as a ServerBuild, what it is started with, native or inside mysqld.

The InnoDB memcached plugin of MySQL 5.6: what configures it before it starts, in the form that it actually reads.

Tried with 5.6.14; where its code says more, storage/innobase's plugin/innodb_memcached of 5.6/5.7:
- of cache_policies only the first row by primary key is read (innodb_config.c), when the plugin starts; an UPDATE
  afterwards changes nothing until it is installed again. So rows are written first, and there is one of each;
- `loose_` keeps a server that does not have the plugin yet from refusing its options at the start;
- flush_all would TRUNCATE the table (innodb_api.c): its policy is always disabled;
- SHOW VARIABLES shows daemon_memcached_option cut at its first space once the plugin runs: stats report what was taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import LOOPBACK
from mydyno.model.definition.experiment import Scalar
from mydyno.model.server_version import ServerVersion
from mydyno.servers.build import ServerBuild, program_folders

MIB = 1 << 20
SPARE_CONNECTIONS = 64
COMMANDS = ("get", "set", "delete")
_CHOICES = "ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL"


async def memcached_build(
    name: str, program: Path, root: Path, host: LocalHost, environment: Mapping[str, str], packages: Mapping[str, str]
) -> ServerBuild:
    """The build of this program, with the version that it reports. Raises HostError if it does not start."""
    folders = program_folders(root, (), environment)
    reported = await host.run(
        [str(program), "--version"], environment=environment, as_server=True, folders=folders, timeout_s=30
    )
    if reported.exit_code:
        raise HostError(f"{program} does not start: {reported.output.strip()[-500:]}")
    return ServerBuild(
        name=name,
        program=program,
        basedir=root,
        messages=root,
        plugins=root,
        version=ServerVersion.parse(reported.output.strip()),
        environment=dict(environment),
        packages=dict(packages),
    )


@dataclass(frozen=True)
class MemcachedOptions:
    """Port, memory and threads of one memcached."""

    port: int
    memory_bytes: int = 64 * MIB
    """memcached's own default, the plugin's too."""
    threads: int = 4
    connections: int = 1024
    """Connections that it takes, mydyno's own among them."""
    listen: str = LOOPBACK
    """The one address on which it listens."""

    @property
    def words(self) -> list[str]:
        """As memcached's command line and daemon_memcached_option take them; one address, no UDP."""
        memory = str(self.memory_bytes // MIB)
        return [
            "-l", self.listen, "-p", str(self.port), "-U", "0",
            "-m", memory, "-t", str(self.threads), "-c", str(self.connections),
        ]  # fmt: skip


def configuring_sql(policies: Mapping[str, str]) -> list[str]:
    """Statements that make the plugin's tables, say the policy of each command, name our table, and install it."""
    columns = ", ".join(f"{command}_policy {_CHOICES}" for command in (*COMMANDS, "flush"))
    choices = ", ".join(f"'{policies[command]}'" for command in COMMANDS)
    return [
        "CREATE DATABASE IF NOT EXISTS innodb_memcache",
        f"CREATE TABLE innodb_memcache.cache_policies (policy_name VARCHAR(40) PRIMARY KEY, {columns}) ENGINE = InnoDB",
        "CREATE TABLE innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, "
        "db_schema VARCHAR(250) NOT NULL, db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, "
        "value_columns VARCHAR(250), flags VARCHAR(250) NOT NULL DEFAULT '0', cas_column VARCHAR(250), "
        "expire_time_column VARCHAR(250), unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE = InnoDB",
        "CREATE TABLE innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50)) "
        "ENGINE = InnoDB",
        f"INSERT INTO innodb_memcache.cache_policies VALUES ('mydyno', {choices}, 'disabled')",
        "INSERT INTO innodb_memcache.containers VALUES ('kv', 'sbtest', 'kv', 'k', 'v', 'flags', 'cas', 'expires', "
        "'PRIMARY')",
        "INSERT INTO innodb_memcache.config_options VALUES ('separator', '|'), ('table_map_delimiter', '.')",
        "INSTALL PLUGIN daemon_memcached SONAME 'libmemcached.so'",
    ]


def plugin_variables(options: MemcachedOptions, read_batch: int, write_batch: int) -> dict[str, Scalar]:
    """The plugin's options for my.cnf; none of them can be changed while it runs."""
    return {
        "loose_daemon_memcached_option": " ".join(options.words),
        "loose_daemon_memcached_r_batch_size": read_batch,
        "loose_daemon_memcached_w_batch_size": write_batch,
    }
