"""Templates: a data directory prepared once, stopped cleanly, and copied for each run, so that all start from the same
bytes. One per (server build, settings that shape data, data spec); kept in the data folder across studies.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from mydyno.errors import HostError, ServerError
from mydyno.files.atomic import write_text
from mydyno.files.private import give_all
from mydyno.files.removal import remove_tree
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.definition.server_options import option_name, plain_name
from mydyno.servers.build import ServerBuild
from mydyno.servers.initialisation import INITIAL_PREFIXES, initialise
from mydyno.servers.my_cnf import option_value
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import PrivateServer

TEMPLATE_FORMAT = 5
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
    *INITIAL_PREFIXES,
)
"""Server variables that change the files of a fresh data directory."""


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
