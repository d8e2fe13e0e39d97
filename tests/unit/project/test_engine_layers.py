"""The layers of the engine: the modules of a crate import in one direction, and files keep their size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real import ROOT

ENGINE = ROOT / "engine"
LAYERS = {
    "dyno-allocations": "",
    "dyno-capture": """
        timestamp lexer class digest fingerprint nondeterminism problems source event timeline heading assembler
        general_log slow_log log history anonymise format transactions
    """,
    "dyno-core": """
        clock duration local_ports operation panics prefetch queue random distribution histogram hdr_log schedule
        streams wire
    """,
    "dyno-kv": "error event number request intake text binary meta connection blocking",
    "dyno-loop": """
        transport gauges priority operation recorder failure overload settings timeline report collector crew arrivals
        intervals tally session worker thread launch
    """,
    "dyno-load": """
        error host server sources null_server kv sql spec agents quality output slices runner capture replay
        cli
    """,
    "dyno-memory": "kernels measure",
    "dyno-mysql": """
        constants counters endpoint error tls session_state options packet auth value compress handshake layers intake
        resultset command outcome login replies connection blocking
    """,
    "dyno-patience": "",
    "dyno-probe": """
        clock control deltas metric schedule text cost_limiter sample speed waiter machine mysql record arguments
        collector groups pseudo_file keyed families catalogue roster server run cli
    """,
    "mydyno-engine": "",
}
"""Top-level modules of each crate: each imports only from those before it. An empty list: one file."""
LARGEST = {"dyno-mysql/src/replies.rs": 413}
"""Files that were longer than the limit when the limit was set: they may only shrink."""
LIMIT = 400

WORD = re.compile(r"[a-z_][a-z0-9_]*")


def without_tests(text: str) -> str:
    """The code above the file's test module."""
    return text.split("#[cfg(test)]\nmod tests", 1)[0]


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def used(text: str, prefix: str) -> Iterator[str]:
    """The first names of the paths that begin with `prefix::`, braces included."""
    for found in re.finditer(rf"\b{re.escape(prefix)}::(\{{)?", text):
        rest = text[found.end() :]
        if not found.group(1):
            yield from WORD.findall(rest[:80])[:1] if WORD.match(rest) else ()
            continue
        depth, name = 1, ""
        for character in rest:
            depth += {"{": 1, "}": -1}.get(character, 0)
            if depth == 0 or (depth == 1 and character == ","):
                if first := WORD.match(name.strip()):
                    yield first.group()
                name = ""
                if depth == 0:
                    break
            else:
                name += character


def module_path(path: Path, source: Path) -> tuple[str, ...]:
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] == "mod" else parts


def imports(crate: str) -> dict[str, set[str]]:
    """Top-level module → the top-level modules that its files name."""
    source = ENGINE / crate / "src"
    files = [path for path in sorted(source.rglob("*.rs")) if path.name not in {"lib.rs", "main.rs", "tests.rs"}]
    modules = {module_path(path, source)[0] for path in files}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for path in files:
        own = module_path(path, source)
        text = without_comments(without_tests(path.read_text(encoding="utf-8")))
        named = set(used(text, "crate"))
        # `super` of a top-level module is the crate; of a deeper one, as many more as it is deep.
        named |= set(used(text, "::".join(["super"] * len(own))))
        graph[own[0]] |= {name for name in named & modules if name != own[0]}
    return graph


def crates() -> list[str]:
    return sorted(path.parent.name for path in ENGINE.glob("*/Cargo.toml"))


def test_every_crate_and_every_module_has_its_place() -> None:
    assert sorted(LAYERS) == crates()
    for crate, layers in LAYERS.items():
        if layers:
            assert set(layers.split()) == set(imports(crate)), crate


@pytest.mark.parametrize("crate", crates())
def test_modules_import_only_from_the_layers_below(crate: str) -> None:
    order = LAYERS[crate].split()
    if not order:
        return
    wrong = [
        f"{crate}: {name} imports {target}"
        for name, targets in imports(crate).items()
        for target in targets
        if order.index(target) > order.index(name)
    ]
    assert wrong == []


@pytest.mark.parametrize("crate", crates())
def test_no_modules_import_each_other_in_a_circle(crate: str) -> None:
    needs = imports(crate)
    while ready := [name for name, targets in needs.items() if not targets & needs.keys()]:
        for name in ready:
            del needs[name]
    assert needs == {}


def test_the_loop_knows_no_protocol_and_no_workload() -> None:
    manifest = (ENGINE / "dyno-loop/Cargo.toml").read_text(encoding="utf-8")
    assert set(re.findall(r'path = "\.\./([\w-]+)"', manifest)) == {"dyno-core"}


def test_the_command_line_s_types_stay_in_cli() -> None:
    source = ENGINE / "dyno-load/src"
    users = {path for path in source.rglob("*.rs") if re.search(r"\bclap::", path.read_text(encoding="utf-8"))}
    assert {path.relative_to(source).parts[0] for path in users} == {"cli"}


def test_a_path_is_found_in_braces_and_alone() -> None:
    text = "use crate::sql::{server, SqlRecord};\nuse crate::{error::Error, kv::{Endpoint, keys}};\ncrate::host::name()"
    assert list(used(text, "crate")) == ["sql", "error", "kv", "host"]


@pytest.mark.parametrize("crate", crates())
def test_files_keep_their_size(crate: str) -> None:
    for path in sorted((ENGINE / crate / "src").rglob("*.rs")):
        name = str(path.relative_to(ENGINE))
        lines = len(without_tests(path.read_text(encoding="utf-8")).splitlines())
        assert lines <= LARGEST.get(name, LIMIT), f"{name}: {lines} lines"
