"""Options of allocators by environment variables, and reading them back from the library itself.

Read back in a small process of its own that has the same library preloaded and the same variables: what it accepts
there, it accepts in the server. What it does not report is stated, not guessed.

- jemalloc: MALLOC_CONF, each key by mallctl("opt.KEY") (jemalloc(3)). A pair that it rejects, in its own messages, is
  not in force; one that it neither rejects nor reports was accepted.
- glibc: MALLOC_ARENA_MAX and GLIBC_TUNABLES, by the dynamic loader's --list-tunables (glibc >= 2.33).
- tcmalloc: TCMALLOC_…, where MallocExtension_GetNumericProperty has a property for it (gperftools, malloc_extension.h).
- mimalloc: MIMALLOC_…, by the option list that MIMALLOC_VERBOSE=1 prints.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.treatments.dynamic_linker import PYTHON_FOLDERS

PREFIXES = {
    "glibc": ("MALLOC_", "GLIBC_TUNABLES"),
    "jemalloc": ("MALLOC_CONF",),
    "tcmalloc": ("TCMALLOC_", "MALLOCSTATS"),
    "mimalloc": ("MIMALLOC_",),
}
"""The variables that each allocator reads begin so."""
TUNABLES = {
    "MALLOC_ARENA_MAX": "glibc.malloc.arena_max",
    "MALLOC_ARENA_TEST": "glibc.malloc.arena_test",
    "MALLOC_MMAP_MAX_": "glibc.malloc.mmap_max",
    "MALLOC_MMAP_THRESHOLD_": "glibc.malloc.mmap_threshold",
    "MALLOC_TOP_PAD_": "glibc.malloc.top_pad",
    "MALLOC_TRIM_THRESHOLD_": "glibc.malloc.trim_threshold",
}
"""glibc's variables and the tunables that they are other names of (mallopt(3))."""
TCMALLOC_PROPERTIES = {
    "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": "tcmalloc.max_total_thread_cache_bytes",
    "TCMALLOC_AGGRESSIVE_DECOMMIT": "tcmalloc.aggressive_memory_decommit",
    "TCMALLOC_HEAP_LIMIT_MB": "tcmalloc.heap_limit_mb",
}
_MARK = "options: "
"""Begins the readers' own line: with some options (stats_print, MALLOCSTATS) the library prints, too."""
_JEMALLOC_READER = """
import ctypes, json, sys
library, found = ctypes.CDLL(sys.argv[1]), {}
for key in sys.argv[2:]:
    found[key] = None
    for size in (1, 4, 8):
        value, length = ctypes.create_string_buffer(8), ctypes.c_size_t(size)
        if library.mallctl(f"opt.{key}".encode(), value, ctypes.byref(length), None, 0) == 0:
            number = int.from_bytes(value.raw[:size], "little", signed=size == 8)
            text = ctypes.cast(value, ctypes.POINTER(ctypes.c_char_p))[0] if number > 1 << 40 else None
            found[key] = text.decode() if text else ("true" if number else "false") if size == 1 else str(number)
            break
print("options: " + json.dumps(found), flush=True)
"""
_TCMALLOC_READER = """
import ctypes, json, sys
library, found = ctypes.CDLL(sys.argv[1]), {}
for key in sys.argv[2:]:
    value = ctypes.c_size_t()
    told = library.MallocExtension_GetNumericProperty(key.encode(), ctypes.byref(value))
    found[key] = str(value.value) if told & 0xff else None
print("options: " + json.dumps(found), flush=True)
"""
_JEMALLOC_REFUSAL = re.compile(
    r"^<jemalloc>: ((?:Invalid|Out-of-range|Malformed|Conf string ends with key).*)$", re.MULTILINE
)
_TUNABLE = re.compile(r"^(glibc\.\S+): (\S+)", re.MULTILINE)
_MIMALLOC_OPTION = re.compile(r"mimalloc: option '(\w+)': (-?\d+)")


@dataclass(frozen=True)
class ReadBack:
    """The options as reported by the library."""

    facts: dict[str, str]
    """Option → the value in force."""
    wrong: tuple[str, ...]
    """Sentences on options that it does not know or that have another value."""
    unreported: tuple[str, ...]
    """Variables that it does not report."""


def foreign_variables(allocator: str, names: Sequence[str]) -> list[str]:
    """The names among these that this allocator does not read."""
    return [name for name in names if not name.startswith(PREFIXES[allocator])]


async def read_back(
    allocator: str, library: Path, environment: Mapping[str, str], host: LocalHost, loader: Sequence[str] = ()
) -> ReadBack:
    """Read every option that the variables set from the library. `loader`: a private dynamic loader, for its glibc."""
    if not environment:
        return ReadBack({}, (), ())
    if allocator == "jemalloc":
        return await _jemalloc(library, environment, host)
    if allocator == "glibc":
        return await _glibc(environment, host, loader)
    if allocator == "tcmalloc":
        return await _tcmalloc(library, environment, host)
    return await _mimalloc(library, environment, host)


async def _query(reader: str, library: Path, keys: Sequence[str], environment: Mapping[str, str],
               host: LocalHost) -> str:  # fmt: skip
    reported = await host.run(
        [sys.executable, "-c", reader, str(library), *keys],
        environment={**environment, "LD_PRELOAD": str(library)},
        as_server=True,
        folders=[*PYTHON_FOLDERS, library.parent],
        timeout_s=60,
    )
    return reported.output


def _reported(output: str) -> dict[str, str | None] | None:
    """The reader's own line, among what the library itself prints; None if there is none."""
    line = next((line for line in output.splitlines() if line.startswith(_MARK)), None)
    return None if line is None else json.loads(line.removeprefix(_MARK))


async def _jemalloc(library: Path, environment: Mapping[str, str], host: LocalHost) -> ReadBack:
    text = environment.get("MALLOC_CONF", "")
    wanted = {key: value for part in text.split(",") if part for key, _, value in [part.partition(":")]}
    return jemalloc_read_back(wanted, await _query(_JEMALLOC_READER, library, list(wanted), environment, host))


def jemalloc_read_back(wanted: Mapping[str, str], output: str) -> ReadBack:
    """The options in force, by the output of a process with them: jemalloc's own messages, and the reader's line."""
    wrong = [f"jemalloc: {message}" for message in dict.fromkeys(_JEMALLOC_REFUSAL.findall(output))]
    found = _reported(output)
    if found is None:
        last = output.strip().splitlines()[-1:] or ["no output"]
        return ReadBack({}, tuple(wrong or [f"jemalloc's options could not be read: {last[0]}"]), ())
    accepted = [key for key in wanted if not any(f" {key}:" in message for message in wrong)]
    facts = {f"opt.{key}": value for key in accepted if (value := found.get(key)) is not None}
    wrong += [
        f"jemalloc's opt.{key} is {facts[f'opt.{key}']}, wanted {wanted[key]}"
        for key in accepted
        if f"opt.{key}" in facts and not _same(wanted[key], facts[f"opt.{key}"])
    ]
    unreported = tuple(f"MALLOC_CONF={key}:{wanted[key]}" for key in accepted if f"opt.{key}" not in facts)
    return ReadBack(facts, tuple(wrong), unreported)


async def _glibc(environment: Mapping[str, str], host: LocalHost, loader: Sequence[str]) -> ReadBack:
    program = loader[0] if loader else await _host_loader(host)
    reported = await host.run(
        [program, "--list-tunables"],
        environment=environment,
        as_server=True,
        folders=[Path(program).parent],
        timeout_s=30,
    )
    actual = dict(_TUNABLE.findall(reported.output))
    wanted = {TUNABLES[name]: value for name, value in environment.items() if name in TUNABLES}
    pairs = [pair.partition("=") for pair in environment.get("GLIBC_TUNABLES", "").split(":") if "=" in pair]
    wanted |= {name: value for name, _, value in pairs}
    if not actual:
        return ReadBack({}, (), tuple(environment))
    wrong = [
        f"glibc's {name} is {actual.get(name, 'unknown to it')}, wanted {value}"
        for name, value in wanted.items()
        if name not in actual or not _same(value, actual[name])
    ]
    unreported = tuple(name for name in environment if name not in TUNABLES and name != "GLIBC_TUNABLES")
    facts = {name: str(int(actual[name], 0)) for name in wanted if name in actual}
    return ReadBack(facts, tuple(wrong), unreported)


async def _host_loader(host: LocalHost) -> str:
    reported = await host.run(["ldd", "/bin/sh"], timeout_s=30)
    return next(
        (line.split()[0] for line in reported.output.splitlines() if "/ld-" in line), "/lib64/ld-linux-x86-64.so.2"
    )


async def _tcmalloc(library: Path, environment: Mapping[str, str], host: LocalHost) -> ReadBack:
    wanted = {TCMALLOC_PROPERTIES[name]: value for name, value in environment.items() if name in TCMALLOC_PROPERTIES}
    output = await _query(_TCMALLOC_READER, library, list(wanted), environment, host) if wanted else ""
    found = _reported(output) or {}
    wrong = [
        f"tcmalloc's {name} is {found.get(name) or 'unknown to it'}, wanted {value}"
        for name, value in wanted.items()
        if not _same(value, found.get(name) or "")
    ]
    unreported = tuple(name for name in environment if name not in TCMALLOC_PROPERTIES)
    return ReadBack({name: str(found.get(name)) for name in wanted}, tuple(wrong), unreported)


async def _mimalloc(library: Path, environment: Mapping[str, str], host: LocalHost) -> ReadBack:
    reported = await host.run(
        ["true"],
        environment={**environment, "MIMALLOC_VERBOSE": "1", "LD_PRELOAD": str(library)},
        as_server=True,
        folders=[library.parent],
        timeout_s=30,
    )
    actual = dict(_MIMALLOC_OPTION.findall(reported.output))
    wanted = {name.removeprefix("MIMALLOC_").lower(): value for name, value in environment.items()}
    wrong = []
    for name, value in wanted.items():
        if name not in actual:
            wrong.append(f"mimalloc has no option {name}")
        elif not _same(value, actual[name]):
            wrong.append(f"mimalloc's {name} is {actual[name]}, wanted {value}")
    return ReadBack({name: actual[name] for name in wanted if name in actual}, tuple(wrong), ())


_WORDS = {
    "true": "1",
    "yes": "1",
    "on": "1",
    "t": "1",
    "y": "1",
    "false": "0",
    "no": "0",
    "off": "0",
    "f": "0",
    "n": "0",
}


def _same(wanted: str, actual: str) -> bool:
    """Whether two spellings say the same: 0x2 and 2, true and 1."""
    spellings = [_WORDS.get(text.strip().lower(), text.strip().lower()) for text in (wanted, actual)]
    if spellings[0] == spellings[1]:
        return True
    try:
        return int(spellings[0], 0) == int(spellings[1], 0)
    except ValueError:
        return False
