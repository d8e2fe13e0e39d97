"""Option files of the field as an arm: every option is proved on a real server, or named as not proved."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.execution.environments.builds import check_values, check_variables
from mydyno.experiments import built_in, load
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.server_user import ids_of
from mydyno.model.definition.experiment import Scalar, ServerSpec
from mydyno.model.definition.server_options import reserved_because
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from mydyno.servers.my_cnf import is_unshown
from mydyno.servers.option_file import groups_of, options_of, read_option_file
from mydyno.servers.running.base import LOAD_SCHEMA, InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from mydyno.servers.templates import initialise
from mydyno.treatments.server import server_of
from mydyno.treatments.variables import VariablesTreatment
from tests.support import DATA, first_in_gate
from tests.support.fake_script import experiment
from tests.support.other_server import get_plugins

UNPROVED = {"skip_host_cache", "skip_slave_start", "loose_validate_password_policy"}
"""Options that no variable shows, or not on every server."""


async def test_no_server_changes_a_value_of_a_built_in_experiment(build: ServerBuild) -> None:
    host = LocalHost("test-option-files", HostPaths.resolve().server_user)
    checked = 0
    for name in built_in():
        experiment, _ = load(name)
        builds = {
            arm.name: build for arm in experiment.arms if server_of(arm, experiment.server).name == "mariadb-10.11"
        }
        await check_values(builds, experiment, host)
        checked += bool(builds)
    assert checked >= 8


@asynccontextmanager
async def configured(
    build: ServerBuild, paths: HostPaths, host: LocalHost, wanted: dict[str, Scalar]
) -> AsyncIterator[tuple[MysqldServer, VariablesTreatment]]:
    """A started server of its own with these variables."""
    with tempfile.TemporaryDirectory(prefix="mydyno-test-") as folder:
        Path(folder).chmod(0o755)
        sockets = Path(folder) / "s"
        sockets.mkdir()
        if paths.server_user is not None:
            os.chown(sockets, *ids_of(paths.server_user))
        made = MysqldServer(
            build, host, Path(folder) / "i", sockets, Path(folder) / "server.log", Credentials(), InstanceSettings()
        )
        treatment = VariablesTreatment(wanted)
        await treatment.apply(made)
        try:
            await initialise(made)
            await made.start()
            yield made, treatment
        finally:
            await made.stop()


@pytest.mark.parametrize("name", first_in_gate(["mariadb-10.11", "mysql-8.0", "mysql-5.7"]))
async def test_a_configuration_of_the_field_is_an_arm_without_a_false_alarm(name: str) -> None:
    paths = HostPaths.resolve()
    host = LocalHost("test-option-files", paths.server_user)
    build = await get_build(ServerSpec(name=name), paths.cache, host)
    read = options_of(read_option_file(DATA / "option-files" / f"{name}.cnf"), groups_of(build.version))
    wanted = {option.name: option.value for option in read.values() if not reserved_because(option.name, option.value)}
    assert len(wanted) >= 30
    async with configured(build, paths, host, wanted) as (made, treatment):
        async with made.control() as control:
            await control.rows(f"CREATE TABLE {LOAD_SCHEMA}.of_the_load (id INT)")
        evidence = await treatment.evidence(made)
        assert evidence.holds, evidence.text
        unproved = {option for option, facts in evidence.facts.items() if facts.get("proved", True) is None}
        assert {"skip_host_cache", "loose_validate_password_policy"} <= unproved <= UNPROVED
        of_plan = {option for option in wanted if is_unshown(option, build.version)}
        assert {option for option in unproved if not option.startswith("loose_")} == of_plan
        wrong = VariablesTreatment({"optimizer_switch": "mrr=maybe", "concurrent_insert": 0})
        refused = await wrong.evidence(made)
        assert not refused.holds
        assert "concurrent_insert is ALWAYS, wanted 0" in refused.text


async def test_plugins_of_several_lines_are_loaded_with_their_options(build: ServerBuild, tmp_path: Path) -> None:
    paths = HostPaths.resolve()
    host = LocalHost("test-option-files", paths.server_user)
    lines = ["plugin_load_add = server_audit", "server_audit = force_plus_permanent", "plugin_load_add = ha_archive",
             "server_audit_logging = OFF"]  # fmt: skip
    (tmp_path / "my.cnf").write_text("\n".join(["[mysqld]", *lines]))
    read = options_of(read_option_file(tmp_path / "my.cnf"), groups_of(build.version))
    wanted = {option.name: option.value for option in read.values()}
    plugins = await get_plugins(paths.cache, host)
    with tempfile.TemporaryDirectory(prefix="mydyno-test-") as folder:
        Path(folder).chmod(0o755)
        for name in ("server_audit.so", "ha_archive.so"):
            shutil.copy(plugins / name, folder)
        asked = experiment(treatments={"jemalloc": {"variables": wanted}})
        made_of = replace(build, plugins=Path(folder))
        await check_variables({"jemalloc": made_of}, asked, host)
        await check_values({"jemalloc": made_of}, asked, host)
        async with configured(made_of, paths, host, wanted) as (made, treatment):
            evidence = await treatment.evidence(made)
            assert evidence.holds, evidence.text
            assert "plugin_load_add = server_audit;ha_archive (its plugins are active)" in evidence.text
            assert "server_audit = force_plus_permanent (set; not proved: the server has no variable" in evidence.text
