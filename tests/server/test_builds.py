"""memcached built from Debian's source and proved in a run; `bisect` over real commits, killed on its way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mydyno.execution.environments.private_environment import open_private_environment
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.source_build import BuildSpec
from mydyno.packages.progress import silent
from mydyno.servers.build import ServerBuild
from mydyno.servers.compiled.compile import get_compiled
from tests.server.support import one_run
from tests.support.memcached_commits import COMMAND, QUICK_COMMAND, Change, MemcachedSource, history, memcached_source
from tests.support.patience import wait_until
from tests.support.processes import processes, shown
from tests.support.real import Program, wait_for

TURNS = 300_000
"""Turns of a loop in each answer of the bad commit: many times memcached's own work, for a short test."""


@dataclass(frozen=True)
class Built:
    """memcached's source, built once for all tests of this file, in a cache of their own."""

    source: MemcachedSource
    build: ServerBuild
    paths: HostPaths

    @property
    def objects(self) -> list[Path]:
        """The object files of the build."""
        return sorted((self.build.basedir).glob("memcached-*.o"))


@pytest.fixture(scope="module")
def built(real_paths: HostPaths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    paths = replace(real_paths, cache=tmp_path_factory.mktemp("cache"))
    source = asyncio.run(memcached_source(real_paths.cache))
    spec = BuildSpec(source=str(source.folder), command=COMMAND, environment=source.environment)
    (build,) = asyncio.run(get_compiled(spec, paths.cache, LocalHost("tests", None), silent))
    yield Built(source, build, paths)


def text(name: str, build: str, arms: str, source: MemcachedSource, design: str = "") -> str:
    """An experiment with little load: a rate, so that slices cost hardly any CPU time."""
    environment = ", ".join(f'{key} = "{value}"' for key, value in source.environment.items())
    return f"""name = "{name}-{os.getpid()}"
question = "Does the test pass?"
[server.build]
{build}
environment = {{ {environment} }}
[data]
workload = "kv"
keys = 500
value_bytes = 64
[validity]
steal = "99%"
driver_cpu = 1
[arms]
{arms}
[[steps]]
workload = "kv_get"
connections = 1
rate = 400
warmup = "0.1s"
measure = "1s"
[design]
{design}
[verdict]
primary = "server_cpu_us_per_query"
"""


async def test_the_run_of_a_build_proves_commit_program_and_layout(built: Built, tmp_path: Path) -> None:
    repository = tmp_path / "made-up"
    (commit,) = history(repository, built.objects, [Change("Begin")])
    arms = f"""control = "whole"
whole = {{ server.build = {{ source = "{built.source.folder}", command = '''{COMMAND}''' }} }}
made_up = {{ server.build = {{ git = "{repository}", command = "{QUICK_COMMAND}", builds = 2 }} }}
"""
    experiment = parse_experiment(
        TomlSource.parse("x.toml", text("builds", "", arms, built.source, 'kind = "blocks"\nblocks = 1')), vocabulary()
    )
    environment = await open_private_environment(built.paths, experiment, f"builds-{os.getpid()}", tmp_path, print)
    try:
        assert environment.builds["whole"].program == built.build.program, "built once"
        assert environment.versions["build of made_up"].startswith(f"commit {commit}, recipe ")
        found = {}
        for arm in ("whole", "made_up"):
            record = await one_run(environment, arm, tmp_path / arm)
            assert not record.failed, record.failed
            (evidence,) = [one for one in record.evidence if one.treatment == "server"]
            assert evidence.holds, evidence.text
            facts = evidence.facts["build"]
            assert evidence.facts["running_sha256"] == facts["sha256"]
            assert facts["compiled_by"][0].startswith("GCC: ")
            assert facts["build_id"][:12] in evidence.text
            assert record.servers[0].flavour == "memcached"
            assert [step for step in record.steps if step.driver.transactions]
            found[arm] = facts
        assert (found["made_up"]["commit"], found["made_up"]["subject"]) == (commit, "Begin")
        assert found["whole"]["commit"].startswith("tree-")
        assert found["whole"]["sha256"] != found["made_up"]["sha256"]
    finally:
        assert environment.close() == []


def made_up(built: Built, program: Program, changes: list[Change], command: str) -> tuple[list[str], str]:
    """(the commits of a new repository, the experiment on it)."""
    repository = program.folder / "made-up"
    commits = history(repository, built.objects, changes)
    program.environment["MYDYNO_CACHE"] = str(built.paths.cache)
    build = f"git = \"{repository}\"\ncommand = '{command}'"
    design = 'slice = "0.2s"\nwashout = "0.1s"\ncycles = 2\nquiet_wait = "0s"\ntime = "none"'
    # A closed loop: with a rate, a pause of the host at the end of a slice leaves too many transactions unfinished.
    loop = text("bisected", build, 'control = "now"\nnow = {}', built.source, design).replace("rate = 400\n", "")
    return commits, program.write(loop)


@pytest.mark.exhaustive
def test_bisect_finds_a_real_commit_also_after_kill_9(built: Built, program: Program) -> None:
    changes = [Change("Begin"), Change("Tidy up"), Change("Check every answer", TURNS)]
    commits, path = made_up(built, program, changes, QUICK_COMMAND)
    asked = ("bisect", path, "--good", "HEAD~2", "--bad", "HEAD", "--blocks", "6")
    planned = program.run(*asked, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "commits   2 after good, up to and with bad" in planned.stdout
    assert not (program.folder / "bisections").exists()

    def ends_are_compared() -> bool:
        journals = (program.folder / "bisections").glob("*/journal.jsonl")
        return any('"ends_compared"' in journal.read_text() for journal in journals)

    with program.started(*asked) as process:
        wait_for(ends_are_compared, process, 240)
        process.send_signal(signal.SIGKILL)
    (folder,) = (program.folder / "bisections").iterdir()
    studies = {one.name for one in (folder / "studies").iterdir()}
    done = program.run("bisect", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"The first bad commit is {commits[2]} (Check every answer; Ada Dev, " in " ".join(done.stdout.split())
    result = json.loads((folder / "result.json").read_text())
    assert (result["state"], result["first_bad"]["hash"]) == ("found", commits[2])
    assert [(one["commit"]["hash"], one["outcome"]) for one in result["comparisons"]] == [(commits[1], "good")]
    assert result["ends"]["comparison"]["ratio"] > 1.5
    assert studies <= {one.name for one in (folder / "studies").iterdir()}
    assert "Check every answer" in (folder / "report.html").read_text()
    assert "| good |" in (folder / "report.md").read_text()


@pytest.mark.exhaustive
def test_commits_that_cancel_each_other_crash_or_do_not_build_lead_no_bisection_astray(
    built: Built, program: Program
) -> None:
    """Killed in a build, with nothing left of it; then continued to its end."""
    changes = [
        Change("Begin"), Change("Burn", TURNS), Change("Burn no more", 0), Change("Break the build", extra="#error no"),
        Change("Crash", extra="__builtin_trap();"), Change("Tidy up"), Change("Check every answer", TURNS),
        Change("Last"),
    ]  # fmt: skip
    asleep = f"{os.getpid()}.25"
    held = program.folder / "held"
    held.touch()
    commits, path = made_up(
        built, program, changes, f"if grep -q change.[1-6].[*] cost.c && test -e {held}; then sleep {asleep}; fi; " +
        QUICK_COMMAND,
    )  # fmt: skip

    def is_building() -> bool:
        return _executing(f"sleep {asleep}")

    before = program.leftovers()
    asked = ("bisect", path, "--good", "HEAD~7", "--bad", "HEAD", "--blocks", "6", "--error", "20%")
    with program.started(*asked) as process:
        wait_for(is_building, process, 400)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert wait_until(lambda: not is_building()), "the build goes on after kill -9"
    held.unlink()
    (folder,) = (program.folder / "bisections").iterdir()
    done = program.run("bisect", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert (result["state"], result["first_bad"]["hash"]) == ("found", commits[6]), done.stdout
    why = {one["commit"]["subject"]: one["skipped_because"] for one in result["comparisons"]}
    assert why.get("Break the build", "build") == "build"
    assert why["Crash"] in ("start", "failed")
    (crashed,) = [one for one in result["comparisons"] if one["commit"]["subject"] == "Crash"]
    assert crashed["reason"]
    assert f"{crashed['commit']['hash'][:12]}: " in done.stdout
    assert program.leftovers() == before


def _executing(command: str) -> bool:
    """Whether there is a process of exactly this command line."""
    return any(shown(line).strip() == command for _, line, _ in processes())
