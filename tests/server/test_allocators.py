"""Allocators proved on live servers; a preload that silently fails is an invalid run with its reason, not a number."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mydyno.execution.environments.private_environment import PrivateEnvironment
from mydyno.model.stored.reasons import joined
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.templates import Template
from mydyno.treatments.allocator import AllocatorTreatment
from mydyno.treatments.allocator_memory import NOT_SERVED
from tests.server.support import numbers_of, one_run
from tests.support import first_in_gate

CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
"""cap_net_bind_service=ep as the kernel stores it (linux/capability.h, VFS_CAP_REVISION_2)."""


@pytest.mark.parametrize("name", first_in_gate(["glibc", "jemalloc", "tcmalloc", "mimalloc"], 2))
async def test_an_allocator_is_proved_on_the_live_server(
    environment: PrivateEnvironment, instance: MysqldServer, name: str
) -> None:
    treatment = AllocatorTreatment(name)
    versions = await treatment.get(environment.paths, environment.host)
    await treatment.apply(instance)
    await instance.start()
    evidence = await treatment.evidence(instance)
    assert evidence.holds, evidence.text
    assert treatment.library.name in evidence.text
    assert versions[name] in evidence.text
    assert set(evidence.facts["malloc_bindings"]["malloc"]) <= {str(treatment.library), evidence.facts["library"]}
    mapped = [Path(path).name for path in evidence.facts["mapped_allocators"]]
    assert len(mapped) == (0 if name == "glibc" else 1)
    before = status_bytes(instance.pid, "VmRSS")
    memory = (await treatment.account(instance)).facts
    resident = memory["heap_bytes"] + memory["anonymous_bytes"] + memory["other_bytes"]
    assert 0.97 * before <= resident <= 1.03 * status_bytes(instance.pid, "VmRSS")
    assert memory["reserved_huge_bytes"] == 0
    assert 0 < memory["pool_data_bytes"] < memory["anonymous_bytes"] + memory["heap_bytes"]
    if name == "glibc":  # MariaDB asks by mallinfo2, which the others do not serve
        assert 0 < memory["allocator_in_use_bytes"] <= memory["allocator_held_bytes"]
        assert memory["allocator_held_bytes"] < status_bytes(instance.pid, "VmSize")
    else:
        assert memory["untold"] == NOT_SERVED


def status_bytes(pid: int, field: str) -> int:
    """A figure of /proc/PID/status, the second source."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition(f"{field}:")[2].split()[0]) << 10


async def test_one_allocators_evidence_does_not_hold_for_another(
    environment: PrivateEnvironment, instance: MysqldServer
) -> None:
    jemalloc, glibc = AllocatorTreatment("jemalloc"), AllocatorTreatment("glibc")
    for treatment in (glibc, jemalloc):
        await treatment.get(environment.paths, environment.host)
    await jemalloc.apply(instance)
    await instance.start()
    evidence = await glibc.evidence(instance)
    assert not evidence.holds
    assert "malloc is served by libjemalloc.so.2" in evidence.text


async def test_a_server_that_does_not_run_proves_nothing(
    environment: PrivateEnvironment, instance: MysqldServer
) -> None:
    treatment = AllocatorTreatment("jemalloc")
    await treatment.get(environment.paths, environment.host)
    await treatment.apply(instance)
    await instance.start()
    await instance.stop()
    evidence = await treatment.evidence(instance)
    assert not evidence.holds
    assert "maps cannot be read" in evidence.text


Sabotage = Callable[[PrivateEnvironment, Path, pytest.MonkeyPatch], None]


def with_own_library(environment: PrivateEnvironment, library: Path) -> None:
    """The arm "jemalloc" uses this library."""
    setting = {"name": "jemalloc", "library": str(library)}
    arms = tuple(
        arm.model_copy(update={"treatments": {"allocator": setting}}) if arm.name == "jemalloc" else arm
        for arm in environment.experiment.arms
    )
    environment.experiment = environment.experiment.model_copy(update={"arms": arms})


def own_copy(environment: PrivateEnvironment, folder: Path) -> Path:
    packaged = next((environment.paths.cache / "debian").glob("libjemalloc2/usr/lib/*/libjemalloc.so.2"))
    folder.mkdir(mode=0o755)
    copy = folder / "libjemalloc.so.2"
    shutil.copy(packaged, copy)
    with_own_library(environment, copy)
    return copy


def gone_before_the_run(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    own_copy(environment, folder).unlink()


def empty_before_the_run(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    own_copy(environment, folder).write_bytes(b"")


def gone_after_get(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    library = own_copy(environment, folder)
    _after_get(patches, library.unlink)


def truncated_after_get(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    library = own_copy(environment, folder)
    _after_get(patches, lambda: os.truncate(library, 5000))


def of_another_architecture_after_get(
    environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch
) -> None:
    library = own_copy(environment, folder)

    def change_machine() -> None:
        content = bytearray(library.read_bytes())
        content[18:20] = struct.pack("<H", 0xF3)  # e_machine: RISC-V (elf.h)
        library.unlink()
        library.write_bytes(content)

    _after_get(patches, change_machine)


def another_library_after_get(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    library = own_copy(environment, folder)
    harmless = next(Path("/usr/lib").glob("*/libz.so.1"), None) or next(Path("/lib").glob("*/libz.so.1"))

    def swap() -> None:
        library.unlink()
        shutil.copy(harmless, library)

    _after_get(patches, swap)


def with_program(environment: PrivateEnvironment, program: Path) -> None:
    """Every server of the study is this program."""
    environment.builds.update({arm: replace(build, program=program) for arm, build in environment.builds.items()})


def wrapper_that_drops_the_preload(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    folder.mkdir(mode=0o755)
    wrapper = folder / "mariadbd"
    server = environment.builds["jemalloc"].program
    wrapper.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec "{server}" "$@"\n')
    wrapper.chmod(0o755)
    with_program(environment, wrapper)


def wrapper_that_stays(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    folder.mkdir(mode=0o755)
    wrapper = folder / "mariadbd"
    wrapper.write_text(
        f'#!/bin/sh\nenv -u LD_PRELOAD setpriv --pdeathsig TERM "{environment.builds["jemalloc"].program}" "$@"\n'
    )
    wrapper.chmod(0o755)
    with_program(environment, wrapper)


def capability_before_the_start(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    program = _program_copy(environment, folder)
    os.setxattr(program, "security.capability", CAPABILITY)


def capability_after_the_start(environment: PrivateEnvironment, folder: Path, patches: pytest.MonkeyPatch) -> None:
    program = _program_copy(environment, folder)
    record = MysqldServer.record

    async def record_and_act(instance: MysqldServer) -> Any:
        os.setxattr(program, "security.capability", CAPABILITY)
        return await record(instance)

    patches.setattr(MysqldServer, "record", record_and_act)


def _program_copy(environment: PrivateEnvironment, folder: Path) -> Path:
    folder.mkdir(mode=0o755)
    program = folder / "mariadbd"
    shutil.copy(environment.builds["jemalloc"].program, program)
    with_program(environment, program)
    return program


def _after_get(patches: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    get = AllocatorTreatment.get

    async def get_and_act(self: AllocatorTreatment, *arguments: Any) -> dict[str, str]:
        versions = await get(self, *arguments)
        act()
        return versions

    patches.setattr(AllocatorTreatment, "get", get_and_act)


SABOTAGE: dict[str, tuple[Sabotage, str]] = {
    "gone before the run": (gone_before_the_run, "allocator is no longer available"),
    "empty before the run": (empty_before_the_run, "allocator is no longer available"),
    "gone after get": (gone_after_get, "the dynamic linker could not preload"),
    "truncated after get": (truncated_after_get, "preload|ended with exit code|malloc is served by libc"),
    "of another architecture": (of_another_architecture_after_get, "preload|malloc is served by libc"),
    "another library in its place": (another_library_after_get, "malloc is served by libc.so.6"),
    "wrapper that drops it": (wrapper_that_drops_the_preload, "malloc is served by libc.so.6"),
    "wrapper that stays": (wrapper_that_stays, "malloc is served by libc.so.6"),
    "capability before the start": (capability_before_the_start, "capabilit|shared librar|exit code"),
    "capability after the start": (capability_after_the_start, "LD_PRELOAD is silently ignored: .* capabilities"),
}


@pytest.mark.parametrize("kind", first_in_gate(SABOTAGE))
async def test_a_sabotaged_preload_is_an_invalid_run_with_the_reason(
    environment: PrivateEnvironment, short_folder: Path, tmp_path: Path, kind: str
) -> None:
    act, words = SABOTAGE[kind]
    if "capability" in kind and os.geteuid() != 0:
        pytest.skip("not root: file capabilities cannot be set here, so dropped preloads by them are not tested")
    template = await environment.template(environment.experiment.arm("jemalloc"), print)

    async def same_template(*_: object) -> Template:
        return template

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(environment, "template", same_template)
        act(environment, short_folder / "sabotage", patches)
        record = await one_run(environment, "jemalloc", tmp_path / "run")
    assert not record.valid
    assert numbers_of(record) == []
    assert record.steps == (), "no load is asked of an unproved server"
    assert re.search(words, joined(record.reasons), re.DOTALL), record.reasons
