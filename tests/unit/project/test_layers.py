"""The layers of the program: imports point down only, and stand at the top of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import mydyno

ROOT = Path(mydyno.__file__).parent
LAYERS = (
    "cli",
    "web",
    "across",
    "reports",
    "bisect",
    "study",
    "fleet",
    "experiments",
    "execution",
    "evaluation",
    "analysis",
    "document",
    "wording",
    "results",
    "treatments",
    "workloads",
    "drivers",
    "servers",
    "packages",
    "hosts",
    "store",
    "verdicts",
    "stats",
    "experiment_file",
    "model",
    "files",
    "language",
    "visible",
    "failpoints",
    "clock",
    "errors",
)
"""From top to bottom: a module imports from its own layer and from those below."""
SLOW_TO_LOAD = {
    "asyncssh",
    "duckdb",
    "hdrh",
    "pydoe",
    "resource",
    "pwd",
}
"""Function-level imports of these need no reason: commands load only what they use."""

READ_THE_WALL_CLOCK = {
    "clock": "the one place",
    "fleet.installation": "compares the clocks of two hosts",
    "hosts.undo": "ages of files",
    "web.index": "ages of files",
    "hosts.network.certificates": "validity of certificates",
    "servers.compiled.compile": "a date",
}
"""And why each may."""


def modules() -> dict[str, Path]:
    """Module name → file, for every file of the package."""
    return {
        ".".join(("mydyno", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in sorted(ROOT.rglob("*.py"))
    }


MODULES = modules()


@cache
def nodes_of(name: str) -> tuple[ast.AST, ...]:
    """Parsed where it is needed: each of several test processes collects all tests, and runs some."""
    return tuple(ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"), str(MODULES[name]))))


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Each later collection of garbage would go through a million nodes."""
    yield
    nodes_of.cache_clear()


def imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """(module, line) of every import among them. `from a import b` gives a.b where that is a module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                yield (deeper if deeper in MODULES else str(node.module)), node.lineno


def layer(module: str) -> str:
    """The layer of a module of ours; "" for the package itself (its version)."""
    return [*module.split("."), ""][1]


def test_every_file_belongs_to_a_layer() -> None:
    assert {layer(name) for name in MODULES} - {""} == set(LAYERS)


def test_imports_point_down_the_layers() -> None:
    wrong = [
        f"{name}:{line} imports {target}"
        for name in MODULES
        for target, line in imported(nodes_of(name))
        if target.startswith("mydyno.") and LAYERS.index(layer(target)) < LAYERS.index(layer(name))
    ]
    assert wrong == []


def test_analyses_are_known_to_their_list_alone() -> None:
    def is_analysis(module: str) -> bool:
        return module.startswith("mydyno.analysis.") and module.split(".")[2] not in ("base", "catalogue")

    wrong = [
        f"{name}:{line} imports {target}"
        for name in MODULES
        for target, line in imported(nodes_of(name))
        if is_analysis(target) and name != "mydyno.analysis.catalogue" and target.split(".")[:3] != name.split(".")[:3]
    ]
    assert wrong == []


def test_sentences_about_results_are_made_in_wording() -> None:
    facts = [name for name in MODULES if layer(name) in ("results", "verdicts", "stats")]
    speaking = {name for name in facts for target, _ in imported(nodes_of(name)) if target == "mydyno.language"}
    assert speaking == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    needs = {
        name: {target for target, _ in imported(nodes_of(name)) if target in MODULES and target != name}
        for name in MODULES
    }
    while ready := [name for name, targets in needs.items() if not targets & needs.keys()]:
        for name in ready:
            del needs[name]
    assert needs == {}


@pytest.mark.parametrize("parent", LAYERS)
def test_no_folders_of_a_layer_import_each_other_in_a_circle(parent: str) -> None:
    def folder(module: str) -> str:
        """The folder of a module below its layer; "" for what is not in one of this layer."""
        _, layer_of_module, below, *_ = [*module.split("."), "", ""]
        return below if layer_of_module == parent and below and (ROOT / parent / below).is_dir() else ""

    needs: dict[str, set[str]] = {}
    for name in MODULES:
        if folder(name):
            targets = {folder(target) for target, _ in imported(nodes_of(name))} - {"", folder(name)}
            needs.setdefault(folder(name), set()).update(targets)
    while ready := [name for name, targets in needs.items() if not targets & needs.keys()]:
        for name in ready:
            del needs[name]
    assert needs == {}


@pytest.mark.parametrize("command", ["cli.plan", "cli.run", "cli.resume", "cli.study_runner", "study"])
def test_a_study_on_this_host_loads_nothing_of_other_hosts(command: str) -> None:
    loaded, waiting = set(), {f"mydyno.{command}"}
    while waiting:
        name = waiting.pop()
        loaded.add(name)
        at_the_top = (node for node in nodes_of(name) if getattr(node, "col_offset", 1) == 0)
        found = {target for target, _ in imported(at_the_top)}
        assert found.isdisjoint({"asyncssh"}), name
        waiting |= ({*found, name.rpartition(".")[0]} & MODULES.keys()) - loaded


def test_imports_inside_functions_load_what_is_slow_or_say_why() -> None:
    wrong = []
    for name in MODULES:
        lines = MODULES[name].read_text(encoding="utf-8").splitlines()
        for function in nodes_of(name):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for target, number in imported(ast.walk(function)):
                said = any("#" in line for line in lines[max(0, number - 3) : number])
                if target.split(".")[0] not in SLOW_TO_LOAD and not said:
                    wrong.append(f"{name}:{number} imports {target} inside {function.name}()")
    assert wrong == []


@pytest.mark.parametrize("name", sorted(MODULES))
def test_files_and_functions_keep_their_size(name: str) -> None:
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= 500
    functions = [node for node in nodes_of(name) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [one.name for one in functions if (one.end_lineno or 0) - one.lineno >= 80] == []


def test_no_other_module_reads_the_wall_clock() -> None:
    found = {
        name.removeprefix("mydyno.")
        for name in MODULES
        for node in nodes_of(name)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("time", "time"), ("time", "time_ns"), ("datetime", "now")}
    }
    assert found - READ_THE_WALL_CLOCK.keys() == set()
