"""Builds from source: once per commit and recipe, whole or not at all, with proof of what they are."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mydyno as mydyno_package
from mydyno.errors import BuildError, HostError
from mydyno.hosts.local import LocalHost, Process
from mydyno.model.definition.experiment import ServerSpec
from mydyno.packages.progress import silent
from mydyno.servers.catalogue import get_alternating
from mydyno.servers.compiled import link_order
from mydyno.servers.compiled.compile import (
    HEAD_BYTES,
    TAIL_BYTES,
    get_compiled,
    planned_builds,
    read_builds,
    remove_build,
)
from mydyno.servers.compiled.record import (
    Toolchain,
    find_toolchain,
    padding_bytes,
    platform_words,
    recipe_hash,
    write_wrappers,
)
from mydyno.servers.compiled.source import Source, get_source
from mydyno.treatments.server import prove_build
from tests.support.memcached_commits import commit, git
from tests.support.patience import until
from tests.support.processes import has_ended
from tests.support.stand_in import COMMAND, HOST, PROGRAM, spec
from tests.unit.cli.test_command_line import mydyno


def left_over(cache: Path) -> list[str]:
    """What lies in the folder of builds, but for locks, logs and the clone."""
    found = [path.name for path in (cache / "builds").glob("*") if path.name not in ("work", "failed")]
    return sorted(name for name in found if not name.endswith(".lock"))


async def test_a_commit_is_built_once_and_its_record_says_how(repository: Path, cache: Path) -> None:
    said: list[str] = []
    (build,) = await get_compiled(spec(repository, ref="v1"), cache, HOST, said.append)
    assert build.version.name == "memcached 1.6.18"
    record = build.compiled
    assert record is not None
    assert (record.commit, record.subject, record.ref) == (git(repository, "rev-parse", "v1"), "Begin", "v1")
    assert record.author == "Ada Dev"
    assert record.toolchain.compilers[0].version.startswith("cc ")
    assert record.compiled_by[0].startswith("GCC: ")
    assert len(record.build_id) == 40
    assert [line.partition(" ")[0] for line in said] == ["cloning", "building"]
    said.clear()
    (again,) = await get_compiled(spec(repository, ref="v1"), cache, HOST, said.append)
    assert (said, again.program) == ([], build.program)
    (newest,) = await get_compiled(spec(repository, command=f"true\n{COMMAND}"), cache, HOST, said.append)
    assert said[-1].endswith(f": true {COMMAND}")
    assert newest.compiled is not None
    assert newest.compiled.commit == git(repository, "rev-parse", "HEAD")
    assert len(read_builds(cache)) == 2
    remove_build(record.name, cache)
    assert list(read_builds(cache)) == [newest.compiled.name]
    assert left_over(cache) == [newest.compiled.name]


async def test_what_decides_about_the_program_is_part_of_its_recipe(repository: Path, cache: Path) -> None:
    async def recipe(**changes: object) -> str:
        _, _, builds = await planned_builds(spec(repository, **changes), cache, HOST)
        return builds[0].recipe

    plain = await recipe()
    assert plain == await recipe()
    others = [
        await recipe(ref="v1"),
        await recipe(command=COMMAND + " -g"),
        await recipe(environment={"CFLAGS": "-O3"}),
    ]
    assert len({plain, *others}) == 4
    assert left_over(cache) == [], "a plan builds nothing"


async def test_a_branch_that_moves_is_another_build(repository: Path, cache: Path) -> None:
    await get_compiled(spec(repository, ref="main"), cache, HOST, silent)
    (repository / "line.c").write_text("int line(void) { return 1 - 1; }\n")
    newest = commit(repository, "Move")
    (build,) = await get_compiled(spec(repository, ref="main"), cache, HOST, silent)
    assert build.compiled is not None
    assert build.compiled.commit == newest


async def test_the_checkout_of_a_ci_service_has_remote_branches_and_a_head_without_a_branch(
    repository: Path, cache: Path, tmp_path: Path
) -> None:
    for number in (1, 2):
        checkout = tmp_path / "checkout"
        shutil.rmtree(checkout, ignore_errors=True)
        git(tmp_path, "clone", "--quiet", str(repository), str(checkout))
        git(checkout, "checkout", "--quiet", "--detach", "origin/main")
        git(checkout, "branch", "--quiet", "-D", "main")
        (checkout / "line.c").write_text(f"int line(void) {{ return {number}; }}\n")
        head = commit(checkout, f"Merge request {number}")
        for ref, expected in (("origin/main", git(repository, "rev-parse", "main")), ("HEAD", head)):
            assert (await get_source(spec(checkout, ref=ref), cache, HOST, silent)).commit == expected
        (repository / "line.c").write_text(f"int line(void) {{ return {number} - {number}; }}\n")
        commit(repository, f"Meanwhile {number}")


async def test_a_branch_that_moves_while_a_study_runs_does_not_change_its_server(repository: Path, cache: Path) -> None:
    of_study = ServerSpec(build=spec(repository, ref="main"))
    (first,) = await get_alternating(of_study, cache, HOST)
    (repository / "line.c").write_text("int line(void) { return 2 - 2; }\n")
    commit(repository, "Move")
    assert await get_alternating(of_study, cache, HOST) == [first]
    assert first.compiled is not None
    remove_build(first.compiled.name, cache)
    (again,) = await get_alternating(of_study, cache, HOST)
    assert again.program == first.program, "a build that was removed is made anew, of the same commit"


async def test_a_failed_build_shows_the_end_of_its_log_and_leaves_nothing(repository: Path, cache: Path) -> None:
    broken = spec(repository, command="echo working; echo 'no such header' >&2; touch $PREFIX/half; exit 3")
    with pytest.raises(BuildError) as error:
        await get_compiled(broken, cache, HOST, silent)
    assert "its command ended with exit code 3\n  | working\n  | no such header" in error.value.message
    log = Path(error.value.hint.removeprefix("the whole log: "))
    assert log.read_text() == "working\nno such header\n"
    assert left_over(cache) == []
    (work,) = (cache / "builds/work").iterdir()
    assert not (work / "prefix").exists()
    assert [path.name for path in (work / "source").iterdir()] == [".git"]


async def test_the_log_of_a_build_that_prints_without_end_is_bounded(repository: Path, cache: Path) -> None:
    command = "echo first; yes | head -c 40000000; yes x | head -c 3000000 | tr -d '\\n'; echo; echo last; exit 3"
    with pytest.raises(BuildError) as error:
        await get_compiled(spec(repository, command=command), cache, HOST, silent)
    assert error.value.message.endswith("\n  | last")
    assert len(error.value.message) < 1000
    log = Path(error.value.hint.removeprefix("the whole log: "))
    assert log.stat().st_size < HEAD_BYTES + TAIL_BYTES + 100
    text = log.read_text()
    assert text.startswith("first\ny\n")
    assert text.endswith("x\nlast\n")
    assert text.count("bytes omitted]") == 1


async def test_a_build_reads_no_input_and_has_no_terminal(repository: Path, cache: Path) -> None:
    command = "if read line; then exit 4; fi; if (: </dev/tty) 2>/dev/null; then exit 5; fi; echo neither; exit 3"
    with pytest.raises(BuildError, match="exit code 3\n  \\| neither"):
        await get_compiled(spec(repository, command=command), cache, HOST, silent)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("true", "ended well, but it installed nothing into $PREFIX"),
        ("mkdir $PREFIX/bin && echo x > $PREFIX/bin/tool", "ended well, but no mysqld or mariadbd in bin/"),
        (f"{COMMAND} && cp memcached.c memcached", "ended well, but "),
    ],
)
async def test_a_command_that_makes_no_server_has_failed(
    repository: Path, cache: Path, command: str, words: str
) -> None:
    with pytest.raises(BuildError) as error:
        await get_compiled(spec(repository, command=command), cache, HOST, silent)
    assert words in error.value.message
    assert left_over(cache) == []


class NotedHost(LocalHost):
    """Keeps what was started."""

    def __init__(self) -> None:
        super().__init__("tests", None)
        self.started: list[Process] = []

    async def start(self, *arguments: Any, **options: Any) -> Process:
        self.started.append(await super().start(*arguments, **options))
        return self.started[-1]


async def test_a_build_ends_at_its_time_limit_with_everything_that_it_started(repository: Path, cache: Path) -> None:
    marker = f"mydyno-test-{os.getpid()}"
    slow = spec(
        repository, command=f"sh -c 'exec -a {marker} sleep 600' & sleep 600".replace("sh -c", "bash -c"), timeout=1
    )
    host = NotedHost()
    with pytest.raises(BuildError, match="did not end within 1 s"):
        await get_compiled(slow, cache, host, silent)
    assert [process.name for process in host.started if process.exit_code is None] == []
    await until(lambda: not _runs(marker))
    assert left_over(cache) == []


def _runs(marker: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(marker.encode()):
                return True
        except OSError:
            continue
    return False


BUILDER = """
import asyncio, sys
from pathlib import Path
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.source_build import BuildSpec
from mydyno.packages.progress import silent
from mydyno.servers.compiled.compile import get_compiled
spec = BuildSpec.model_validate_json(sys.argv[1])
asyncio.run(get_compiled(spec, Path(sys.argv[2]), LocalHost("tests", None), silent))
"""


async def test_a_build_ends_with_a_mydyno_that_is_killed_and_is_made_anew(
    repository: Path, cache: Path, tmp_path: Path
) -> None:
    pids, held = tmp_path / "pids", tmp_path / "held"
    held.touch()
    wanted = spec(repository, command=f"if test -e {held}; then sleep 300 & echo $! $$ >{pids}; wait; fi; {COMMAND}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BUILDER, wanted.model_dump_json(), str(cache),
        env={**os.environ, "PYTHONPATH": str(Path(mydyno_package.__file__).parents[1])},
    )  # fmt: skip
    await until(lambda: pids.is_file() and len(pids.read_text().split()) == 2)
    process.kill()
    await process.wait()
    await until(lambda: all(has_ended(int(pid)) for pid in pids.read_text().split()))
    held.unlink()
    (build,) = await get_compiled(wanted, cache, HOST, silent)
    assert build.compiled is not None
    assert left_over(cache) == [build.compiled.name]


async def test_two_at_once_build_once(repository: Path, cache: Path, tmp_path: Path) -> None:
    counting = spec(repository, command=f"echo x >> {tmp_path}/count; {COMMAND}")
    one, two = await asyncio.gather(*(get_compiled(counting, cache, HOST, silent) for _ in range(2)))
    assert one[0].program == two[0].program
    assert (tmp_path / "count").read_text() == "x\n"


@pytest.mark.slow
async def test_several_builds_of_a_commit_differ_in_layout_alone(repository: Path, cache: Path) -> None:
    builds = await get_compiled(spec(repository, builds=3), cache, HOST, silent)
    records = [build.compiled for build in builds if build.compiled is not None]
    assert [record.layout for record in records] == [1, 2, 3]
    assert len({record.sha256 for record in records}) == 3
    assert len({record.commit for record in records}) == 1
    assert records[0].padding_bytes == padding_bytes(1) == {"text": 0, "data": 0, "rodata": 0, "bss": 0}
    assert all(size % 16 == 0 and size for size in padding_bytes(3).values())
    (alone,) = await get_compiled(spec(repository), cache, HOST, silent)
    assert alone.program == builds[0].program, "the first of several is the only one of one"


async def test_builds_whose_layout_does_not_differ_are_refused(repository: Path, cache: Path) -> None:
    path = shutil.which("cc")
    fixed = spec(repository, builds=2, command=COMMAND.replace("cc ", f"{path} "))
    with pytest.raises(BuildError, match=r"builds 1 and 2 of [0-9a-f]{12} are the same file"):
        await get_compiled(fixed, cache, HOST, silent)


async def test_ccache_is_used_where_it_is(
    repository: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ccache").write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/used\nexec "$@"\n')
    (programs / "ccache").chmod(0o755)
    of_host = shutil.which("ccache") or ""
    (plain,) = await get_compiled(spec(repository), cache, HOST, silent)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    other = tmp_path / "other-cache"
    (cached,) = await get_compiled(spec(repository), other, HOST, silent)
    assert plain.compiled is not None
    assert cached.compiled is not None
    assert (plain.compiled.toolchain.ccache, cached.compiled.toolchain.ccache) == (of_host, str(programs / "ccache"))
    assert (tmp_path / "used").read_text().splitlines() == [shutil.which("cc")] * 3
    assert plain.compiled.sha256 == cached.compiled.sha256
    assert plain.compiled.recipe == cached.compiled.recipe


async def test_a_build_of_another_layout_is_made_by_the_compiler_of_its_own_path(
    repository: Path, cache: Path, tmp_path: Path
) -> None:
    programs, used = tmp_path / "bin", tmp_path / "used"
    programs.mkdir()
    (programs / "cc").write_text(f'#!/bin/sh\necho "$*" >>{used}\nexec {shutil.which("cc")} "$@"\n')
    (programs / "cc").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    first, second = await get_compiled(spec(repository, builds=2, environment=environment), cache, HOST, silent)
    for build in (first, second):
        assert build.compiled is not None
        assert build.compiled.toolchain.compilers[0].path == str(programs / "cc")
    compiled = [line for line in used.read_text().splitlines() if "line.c" in line.split()]
    assert len(compiled) == 2, "each of the builds"


def test_builds_whose_wrappers_ignored_their_path_are_made_anew() -> None:
    """All others are those of before."""
    source = Source(name="x", origin="/x", commit="c")
    found = []
    for environment in ({}, {"CFLAGS": "-O3"}, {"PATH": "/opt/gcc/bin:/bin"}):
        facts = {
            "format": 1, "commit": "c", "command": COMMAND, "environment": environment, "compilers": [],
            "platform": platform_words(), "layout": 1, "padding": padding_bytes(1),
        }  # fmt: skip
        before = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        asked = spec(Path("/x"), environment=environment)
        found.append(recipe_hash(source, asked, Toolchain(compilers=()), 1) == before)
    assert found == [True, True, False]


async def test_a_link_to_ccache_is_no_compiler(tmp_path: Path) -> None:
    links, programs = tmp_path / "links", tmp_path / "bin"
    for folder, name in ((links, "ccache-4.8"), (programs, "cc")):
        folder.mkdir()
        (folder / name).write_text(f"#!/bin/sh\necho {name}\n")
        (folder / name).chmod(0o755)
    for name in ("cc", "clang"):
        (links / name).symlink_to("ccache-4.8")
    environment, ccache = {"PATH": f"{links}:{programs}"}, str(links / "ccache-4.8")
    toolchain = (await find_toolchain(environment, HOST)).model_copy(update={"ccache": ccache})
    assert toolchain.compilers[0].path == str(programs / "cc")
    wrappers = await write_wrappers(tmp_path / "wrappers", environment, toolchain, 1, HOST)
    assert wrappers is not None
    assert [path.name for path in wrappers.iterdir()] == ["cc"]
    assert (wrappers / "cc").read_text().endswith(f'exec {ccache} {programs / "cc"} "$@"\n')
    (named,) = (await find_toolchain({**environment, "CC": "ccache-4.8 cc"}, HOST)).compilers
    assert named.name == "ccache-4.8"


@pytest.mark.parametrize(
    "command",
    [
        "printf 'protocol=https\\nhost=git.example\\n\\n' | git credential fill",
        "stty -echo </dev/tty && head -1 </dev/tty",
        'read password && test -n "$password"',
    ],
    ids=["git's password", "a terminal's", "standard input's"],
)
async def test_a_command_that_waits_for_a_password_fails_at_once(repository: Path, cache: Path, command: str) -> None:
    began = time.monotonic()
    with pytest.raises(BuildError, match="its command ended with exit code"):
        await get_compiled(spec(repository, command=command, timeout=60), cache, HOST, silent)
    assert time.monotonic() - began < 50, "it did not wait for its time limit"


async def test_a_compiler_that_is_not_there_is_named(repository: Path, cache: Path) -> None:
    with pytest.raises(HostError, match="no compiler no-such-cc on PATH"):
        await get_compiled(spec(repository, environment={"CC": "no-such-cc"}), cache, HOST, silent)


async def test_the_proof_tells_another_file_from_the_build(repository: Path, cache: Path) -> None:
    sleeping = 'int line(void) { __builtin_printf(""); for (;;) sleep(600); }\n'
    (repository / "line.c").write_text(f"#include <unistd.h>\n#include <stdio.h>\n{sleeping}")
    (repository / "memcached.c").write_text(PROGRAM.replace("return line();", "return c > 1 ? 0 : line();")
                                            .replace("main(void)", "main(int c, char **v)"))  # fmt: skip
    commit(repository, "Sleep")
    (build,) = await get_compiled(spec(repository), cache, HOST, silent)
    record = build.compiled
    assert record is not None
    process = await HOST.start([str(build.program)])
    try:
        await _until_it_executes(process.pid, build.program)
        proof = prove_build(process.pid, build.program, record)
        assert (proof.reasons, proof.facts["running_sha256"]) == ([], record.sha256)
        copy = build.program.with_name("copy")
        shutil.copy2(build.program, copy)
        assert prove_build(process.pid, copy, record).reasons == [f"the process does not run the file {copy}"]
        other = record.model_copy(update={"sha256": "0" * 64})
        assert "the build has 0000000000000000…" in prove_build(process.pid, build.program, other).reasons[0]
    finally:
        await process.end(0.0)
    assert "cannot be read" in prove_build(process.pid, build.program, record).reasons[0]


async def _until_it_executes(pid: int, program: Path) -> None:
    await until(lambda: Path(f"/proc/{pid}/exe").readlink() == program)


EXPERIMENT = """name = "x"
question = "Which commit is faster?"
server.build = {{ git = "{repository}", command = "{command}" }}
data.workload = "kv"
[arms]
control = "old"
old = {{ server.build.ref = "v1" }}
new = {{ server.build = {{ builds = 2 }} }}
[[steps]]
workload = "kv_get"
"""


def test_a_plan_does_not_guess_the_time_and_size_of_a_command_that_has_built_nothing(
    repository: Path, tmp_path: Path
) -> None:
    text = EXPERIMENT.format(repository=repository, command=COMMAND).replace("builds = 2", 'builds = 2, timeout = "3h"')
    (tmp_path / "x.toml").write_text(text)
    planned = mydyno(tmp_path, "plan", "x.toml").stdout
    assert (
        "and an unknown time for 3 builds of stand-in at v1, stand-in at HEAD, once: "
        "the cache has no build by this command; timeout of a build: 3 h\n"
    ) in planned
    assert "builds: 3 to be made, size unknown\n" in planned
    assert "sources: 1 to be copied into the cache\n" in planned


def test_a_plan_has_a_line_for_each_command_of_a_build(repository: Path, tmp_path: Path) -> None:
    text = EXPERIMENT.format(repository=repository, command=COMMAND)
    (tmp_path / "x.toml").write_text(text.replace(f'"{COMMAND}"', f'"true\\n{COMMAND}\\n"'))
    planned = mydyno(tmp_path, "plan", "x.toml").stdout
    assert (
        f"by these commands (at most 2 h):\n            true\n            {COMMAND}\n          stand-in at HEAD"
        in planned
    )


def test_a_repository_that_is_not_there_is_all_that_a_gate_prints(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(
        EXPERIMENT.format(repository=tmp_path / "nowhere", command=COMMAND)
        + "[thresholds]\nqps = 'no worse than -2%'\n"
    )
    done = mydyno(tmp_path, "gate", "x.toml", "--base", "v1", "--head", "main")
    assert done.returncode == 3, done.stderr
    words = f"arms base, head: server: server.build.git: {tmp_path / 'nowhere'} is neither a folder nor a URL"
    assert done.stderr.splitlines() == [f"mydyno: error: {words}"]


async def test_plan_and_servers_tell_what_is_built_and_what_is_not(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(EXPERIMENT.format(repository=repository, command=COMMAND))
    await get_compiled(spec(repository, ref="v1"), tmp_path / "cache", HOST, silent)
    (name,) = read_builds(tmp_path / "cache")
    planned = mydyno(tmp_path, "plan", "x.toml")
    commit_ = git(repository, "rev-parse", "HEAD")[:12]
    assert f"stand-in at v1 ({git(repository, 'rev-parse', 'v1')[:12]} Begin): in the cache, {name}" in planned.stdout
    into = f"into {tmp_path / 'cache/builds'}/stand-in-{commit_}-"
    for number in (1, 2):
        (line,) = [
            line for line in planned.stdout.splitlines() if f"({commit_} Count), build {number}: will be" in line
        ]
        assert "will be built with cc " in line
        assert into in line
    assert f"by {COMMAND} (at most 2 h)" in planned.stdout
    assert (
        "and about 2 s for 2 builds of stand-in at HEAD, once: the last build by this command took " in planned.stdout
    )
    assert re.search(r"builds: [\d.]+ KiB in the cache \(1\); about [\d.]+ KiB more for 2 to be made\n", planned.stdout)
    assert re.search(r"sources: [\d.]+ KiB in the cache\n", planned.stdout)
    assert list(read_builds(tmp_path / "cache")) == [name]
    assert "stand-in has no such commit" not in planned.stderr
    listed = mydyno(tmp_path, "servers").stdout
    assert f"{name}  memcached 1.6.18, " in listed
    assert f"(Begin), from {repository}" in listed
    wrong = mydyno(tmp_path, "servers", "remove", f"{name[:-1]}x")
    assert (wrong.returncode, f"did you mean {name!r}?" in wrong.stderr) == (2, True)
    assert mydyno(tmp_path, "servers", "remove", name).stdout == f"{name} is removed\n"
    assert read_builds(tmp_path / "cache") == {}
    (tmp_path / "x.toml").write_text(EXPERIMENT.format(repository=repository, command=COMMAND).replace('"v1"', '"v9"'))
    refused = mydyno(tmp_path, "plan", "x.toml")
    assert (refused.returncode, "server.build.ref = 'v9'" in refused.stderr) == (2, True)


def test_a_link_is_shuffled_and_padded_and_nothing_else_is() -> None:
    objects = [f"{name}.o" for name in "abcdefgh"]
    arguments = ["-O2", "-o", "out.o.program", *objects, "-lfirst", "x.o", "y.o", "-lsecond"]
    shuffled = link_order.reordered(arguments, 2)
    assert shuffled != arguments
    assert sorted(shuffled[3:11]) == objects
    assert (shuffled[11], sorted(shuffled[12:14]), shuffled[14]) == ("-lfirst", ["x.o", "y.o"], "-lsecond")
    assert shuffled == link_order.reordered(arguments, 2)
    assert len({tuple(link_order.reordered(arguments, seed)) for seed in range(2, 12)}) > 8
    linked = link_order.command(["2", "pad.o", "gcc", "--", *arguments])
    assert linked[:3] == ["gcc", "-Wl,--undefined=mydyno_layout_padding", "pad.o"]
    for passed_on in (["-c", "a.c", "-o", "a.o"], ["-r", "a.o", "b.o", "-o", "c.o"], ["--version"], ["-E", "a.c"]):
        assert link_order.command(["2", "pad.o", "gcc", "--", *passed_on]) == ["gcc", *passed_on]
