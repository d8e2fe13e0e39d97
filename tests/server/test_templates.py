"""Templates: every run starts from the same bytes; half-made data never have a whole one's name."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.errors import DriverError, HostError
from mydyno.execution.environments.private_environment import PrivateEnvironment, open_private_environment
from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.templates import Template, copy_template, present_template
from tests.server.support import one_run, small_experiment


def checksums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def test_every_copy_has_the_templates_bytes_whatever_the_run_before_did(
    instance: MysqldServer, template: Template
) -> None:
    wanted = checksums(template.data)
    assert any("sbtest1.ibd" in name for name in wanted)
    assert checksums(instance.data) == wanted
    await instance.start()
    async with instance.control() as control:
        await control.rows("DELETE FROM sbtest.sbtest1 WHERE id < 500")
    await instance.stop()
    assert checksums(instance.data) != wanted
    await copy_template(template, instance, instance.host)
    assert checksums(instance.data) == wanted
    assert checksums(template.data) == wanted


async def test_a_template_carries_nothing_of_the_server_that_made_it(template: Template) -> None:
    names = {path.name for path in template.data.iterdir()}
    assert not names & {"ib_buffer_pool", "auto.cnf", "mysqld.pid"}
    assert not list(template.folder.glob("init.sql"))


async def test_a_template_is_mydynos_and_each_copy_the_servers(instance: MysqldServer, template: Template) -> None:
    def owners(folder: Path) -> set[tuple[int, int]]:
        return {(path.lstat().st_uid, path.lstat().st_gid) for path in (folder, *folder.rglob("*"))}

    own = (os.getuid(), os.getgid())
    assert owners(template.data) == {own}
    assert owners(instance.data) == {instance.owner() or own}


async def test_data_that_are_there_are_not_made_again(environment: PrivateEnvironment, template: Template) -> None:
    said: list[str] = []
    assert await environment.template(environment.experiment.arms[0], said.append) == template
    assert said == []


@pytest.fixture
async def fresh_environment(real_paths: HostPaths, tmp_path: Path) -> PrivateEnvironment:
    """A study environment on a data folder without any template."""
    settings = replace(real_paths, data=tmp_path / "fresh")
    return await open_private_environment(settings, small_experiment(), f"fresh-{os.getpid()}-x", tmp_path, print)


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_preparing_that_ends_half_way_leaves_nothing_under_the_name(
    fresh_environment: PrivateEnvironment, how: str
) -> None:
    async def prepare(*_: object) -> None:
        if how == "fails":
            raise DriverError("sysbench prepare failed")
        raise asyncio.CancelledError

    fresh_environment.drivers["sysbench"].prepare = prepare  # type: ignore[method-assign]
    with pytest.raises(DriverError if how == "fails" else asyncio.CancelledError):
        await fresh_environment.template(fresh_environment.experiment.arms[0], print)
    root = fresh_environment.paths.data / "templates"
    assert not root.exists() or list(root.iterdir()) == []
    assert fresh_environment.close() == []


async def test_an_arm_that_the_server_does_not_initialise_fails_with_the_servers_words(
    real_paths: HostPaths, tmp_path: Path
) -> None:
    paths = replace(real_paths, data=tmp_path / "fresh")
    arms = 'control = "plain"\nplain = {}\nencrypted = { variables = { innodb_encrypt_tables = "ON" } }'
    name = f"unprepared-{os.getpid()}-x"
    environment = await open_private_environment(paths, small_experiment(arms), name, tmp_path, print)
    record = await one_run(environment, "encrypted", tmp_path / "run")
    assert "initialisation failed" in record.failed
    assert re.search(r"error log: .*\[ERROR\].*encrypt", record.failed)
    assert environment.close() == []


def test_a_folder_without_its_facts_is_no_template(tmp_path: Path) -> None:
    (tmp_path / "key" / "data").mkdir(parents=True)
    assert present_template(tmp_path, "key") is None


async def test_a_copy_that_does_not_fit_is_refused_before_a_byte_is_copied(
    instance: MysqldServer, template: Template
) -> None:
    huge = replace(template, size_bytes=1 << 60)
    with pytest.raises(HostError, match="a copy of the data needs"):
        await copy_template(huge, instance, instance.host)
    assert (instance.data / "ibdata1").exists(), "what was there before is still there"
