"""What the dynamic linker says about a program's libraries, and what makes it drop a preload in silence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.hosts.local import LocalHost
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import InstanceSettings
from mydyno.treatments.allocator import AllocatorTreatment
from mydyno.treatments.dynamic_linker import bindings, mapped_libraries, parse_bindings, secure_execution_reason
from mydyno.treatments.environment import EnvironmentTreatment

JEMALLOC = "/cache/libjemalloc.so.2"
BOUND = """\
      4711:\tbinding file /opt/mariadbd [0] to /cache/libjemalloc.so.2 [0]: normal symbol `malloc' [GLIBC_2.2.5]
      4711:\tbinding file /lib/libstdc++.so.6 [0] to /cache/libjemalloc.so.2 [0]: normal symbol `malloc'
      4711:\tbinding file /opt/mariadbd [0] to /cache/libjemalloc.so.2 [0]: normal symbol `malloc' [GLIBC_2.2.5]
      4711:\tbinding file /opt/mariadbd [0] to /lib/libc.so.6 [0]: normal symbol `strlen' [GLIBC_2.2.5]
      4711:\tbinding file /lib/libc.so.6 [0] to /lib/libc.so.6 [0]: weak symbol `free' [GLIBC_2.2.5]
/opt/mariadbd  Ver 10.11.19-MariaDB
"""


def test_bindings_of_the_allocation_symbols_are_read() -> None:
    found = parse_bindings(BOUND)
    assert found.of("malloc") == {JEMALLOC: ["/opt/mariadbd", "/lib/libstdc++.so.6"]}
    assert found.of("free") == {"/lib/libc.so.6": ["/lib/libc.so.6"]}
    assert found.of("calloc") == {}
    assert "strlen" not in found.providers
    assert found.output == "/opt/mariadbd  Ver 10.11.19-MariaDB"


@pytest.mark.parametrize(
    "words",
    [
        "ERROR: ld.so: object '/x/a.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
        "ERROR: ld.so: object '/x/a.so' from LD_PRELOAD cannot be preloaded (file too short): ignored.",
        "ERROR: ld.so: object '/x/a.so' from LD_PRELOAD cannot be preloaded (wrong ELF class: ELFCLASS32): ignored.",
        "ERROR: ld.so: object '/x/a.so' from LD_PRELOAD cannot be preloaded: ignored.",
    ],
)
def test_a_refused_preload_is_seen(words: str) -> None:
    assert parse_bindings(f"{words}\n{words}\n").refused == ("/x/a.so",)


def test_output_without_any_binding_says_so() -> None:
    found = parse_bindings("error while loading shared libraries: libaio.so.1", 127)
    assert (found.providers, found.refused, found.exit_code) == ({}, (), 127)
    assert "libaio" in found.output


async def test_a_real_program_binds_malloc_to_the_hosts_libc(tmp_path: Path) -> None:
    found = await bindings(["/bin/cat"], {}, LocalHost("test", None), [])
    assert [Path(provider).name for provider in found.of("malloc")] == ["libc.so.6"]


async def test_a_preload_that_is_not_there_is_refused_by_the_real_linker() -> None:
    found = await bindings([sys.executable], {"LD_PRELOAD": "/nowhere/libx.so"}, LocalHost("test", None), [])
    assert found.refused == ("/nowhere/libx.so",)


def test_the_maps_of_a_live_process_are_read() -> None:
    assert any("libc.so.6" in path for path in mapped_libraries(os.getpid()) or [])


def test_maps_of_a_process_that_is_gone_are_none_and_not_empty() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert mapped_libraries(process.pid) is None


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_a_setuid_program_drops_preloads(tmp_path: Path, mode: int) -> None:
    program = tmp_path / "mysqld"
    shutil.copy("/bin/true", program)
    assert secure_execution_reason(program) is None
    program.chmod(mode)
    assert secure_execution_reason(program) == f"{program} is setuid or setgid"


def test_a_program_that_is_not_there_has_no_reason(tmp_path: Path) -> None:
    assert secure_execution_reason(tmp_path / "none") is None


def reasons(output: str, library: Path) -> list[str]:
    """What the allocator treatment finds wrong with the bindings of /opt/mariadbd."""
    treatment = AllocatorTreatment("jemalloc")
    treatment._library = library
    return treatment._binding_reasons(parse_bindings(output), Path("/opt/mariadbd"))


def test_a_symbol_that_another_library_serves_does_not_hold() -> None:
    assert reasons(BOUND, Path(JEMALLOC)) == ["free is served by libc.so.6"]
    assert reasons(BOUND.replace("to /lib/libc.so.6 [0]: weak", f"to {JEMALLOC} [0]: weak"), Path(JEMALLOC)) == []


def test_the_programs_own_linkage_table_passes_on_what_it_binds_to_the_allocator_itself() -> None:
    table = "1: binding file /lib/libc.so.6 [0] to /opt/mariadbd [0]: normal symbol `malloc'\n"
    rest = BOUND.replace("weak symbol `free'", "weak symbol `strdup'")
    assert reasons(rest + table, Path(JEMALLOC)) == []
    assert reasons(table, Path(JEMALLOC)) == ["malloc is served by mariadbd"], "an allocator linked into the program"


def test_a_library_that_passes_a_sized_delete_on_is_no_provider() -> None:
    bound = BOUND.replace("weak symbol `free'", "weak symbol `strdup'")
    sized = "1: binding file /opt/mariadbd [0] to /lib/libprotobuf-lite.so [0]: normal symbol `_ZdlPvm'\n"
    passed = "1: binding file /lib/libprotobuf-lite.so [0] to /lib/libstdc++.so.6 [0]: normal symbol `_ZdlPv'\n"
    assert reasons(bound + sized, Path(JEMALLOC)) == ["_ZdlPvm is served by libprotobuf-lite.so"]
    assert reasons(bound + sized + passed, Path(JEMALLOC)) == []
    foreign = passed.replace("/lib/libstdc++.so.6", "/lib/libhoard.so")
    assert reasons(bound + sized + foreign, Path(JEMALLOC)) == ["_ZdlPv is served by libhoard.so"]


def test_no_binding_of_malloc_at_all_does_not_hold() -> None:
    assert "shows no binding of malloc" in reasons("", Path(JEMALLOC))[0]


@pytest.mark.parametrize(
    ("preload", "lacking"),
    [
        ("libm.so.6", []),
        ("{libm}", []),
        ("{link} libm.so.6", []),
        ("libmydyno-none.so.1:libm.so.6", ["libmydyno-none.so.1"]),
        ("/nowhere/libm.so.6", ["/nowhere/libm.so.6"]),
    ],
)
async def test_a_library_that_was_not_preloaded_is_named(preload: str, lacking: list[str], tmp_path: Path) -> None:
    libm = mapped_libm()
    (tmp_path / "libother.so").symlink_to(libm)
    evidence, folders = await preloaded({"LD_PRELOAD": preload.format(libm=libm, link=tmp_path / "libother.so")})
    assert evidence.holds is not bool(lacking)
    assert [name for name in lacking if f"{name} of LD_PRELOAD is not mapped" not in evidence.text] == []
    assert (Path(libm).resolve().parent in folders) == ("{" in preload)


async def test_a_preloaded_library_has_any_name_and_may_be_found_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("trace", "lib/libjemalloc.so.2"):
        shutil.copy(mapped_libm(), tmp_path / name)
    (tmp_path / "alloc.so").symlink_to("lib/libjemalloc.so.2")
    for preload in (tmp_path / "trace", "alloc.so"):
        evidence, _ = await preloaded({"LD_PRELOAD": str(preload), "LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"})
        assert evidence.holds, evidence.text
    evidence, _ = await preloaded({"LD_PRELOAD": "alloc.so", "LD_LIBRARY_PATH": "/nowhere"})
    assert not evidence.holds


def mapped_libm() -> str:
    return next(path for path in mapped_libraries(os.getpid()) or () if "/libm.so" in path)


async def preloaded(environment: dict[str, str]) -> tuple[Evidence, list[Path]]:
    """The evidence of a program with this environment, and the folders that its server would be let into."""
    treatment = EnvironmentTreatment(dict(environment))
    with subprocess.Popen(
        ["cat"], env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()  # it runs, with its libraries
        instance: Any = SimpleNamespace(pid=process.pid, number=1, settings=InstanceSettings(variables={}))
        await treatment.apply(instance)
        evidence = await treatment.evidence(instance)
        process.stdin.close()
    return evidence, instance.settings.folders
