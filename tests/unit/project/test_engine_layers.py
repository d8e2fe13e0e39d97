"""The layers of the engine: the files of a crate use each other in one direction, and keep their size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.real import ROOT

ENGINE = ROOT / "engine"
LAYERS = {
    "dyno-allocations": "",
    "dyno-capture": """
        timestamp lexer reach compound statements query class digest unique nondeterminism problems event implicit
        timeline selection assembler general_log slow_log packets log history anonymise format transactions
    """,
    "dyno-core": "clock local_ports queue random distribution histogram schedule streams wire",
    "dyno-kv": "event request intake text binary meta connection blocking",
    "dyno-loop": """
        transport gauges recorder settings timeline report collector crew arrivals tally session worker launch
    """,
    "dyno-load": """
        error host server sources parse null_server kv sql spec agents quality output slices runner capture replay
        statements cli
    """,
    "dyno-memory": "",
    "dyno-mysql": """
        constants endpoint error tls options packet auth value compress handshake layers intake resultset command
        login replies connection blocking
    """,
    "dyno-patience": "",
    "dyno-probe": """
        clock deltas metric text sample speed waiter machine mysql record arguments collector pseudo_file keyed
        families roster server run cli
    """,
    "mydyno-engine": "",
}
"""Top-level modules of each crate: each imports only from those before it. An empty list: one file."""
LIMIT = 450

IGNORED = re.compile(r"""//[^\n]*|r#".*?"#|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.DOTALL)
"""Comments, and literals that could look like code."""
IMPORT = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
PATH = re.compile(r"(?<![\w:.])\w+(?:::\w+)+")

Names = tuple[str, ...]
"""A path from the root of a crate: () is lib.rs, ("sql", "server") is sql/server.rs or an item of sql.rs."""


def without_tests(text: str) -> str:
    """The code above the file's test module."""
    return text.split("#[cfg(test)]\nmod tests", 1)[0]


def imported(tree: str) -> Iterator[tuple[Names, str]]:
    """Each path of `use TREE;`, and the name that it gets."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    prefix = tuple(head.split("::")[:-1])
    if not brace:
        path, _, name = tree.partition(" as ")
        yield tuple(path.split("::")), name or path.split("::")[-1]
        return
    depth, part = 0, ""
    for character in rest.removesuffix("}") + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth or character != ",":
            part += character
            continue
        for path, name in imported(part) if part.strip() else ():
            of_prefix = path == ("self",)
            yield (prefix if of_prefix else prefix + path), (prefix[-1] if name == "self" else name)
        part = ""


class Crate:
    """The files of a crate, and what each uses of the others.

    What a file re-exports (`pub use`) it does not use itself: a path through it leads to the file that has the item.
    """

    def __init__(self, source: Path) -> None:
        files = [path for path in sorted(source.rglob("*.rs")) if path.name not in {"main.rs", "tests.rs"}]
        texts = {}
        for path in files:
            parts = path.relative_to(source).with_suffix("").parts
            own = parts[:-1] if parts[-1] in {"mod", "lib"} else parts
            texts[own] = IGNORED.sub("", without_tests(path.read_text(encoding="utf-8")))
        self.texts = {own: IMPORT.sub("", text) for own, text in texts.items()}
        self.imports: dict[Names, list[tuple[bool, Names, str]]] = {}
        for own, text in texts.items():
            each = [(bool(public), *one) for public, tree in IMPORT.findall(text) for one in imported(tree)]
            self.imports[own] = [(public, self.absolute(own, path), name) for public, path, name in each]
        self.names = {own: {name: path for _, path, name in each if path} for own, each in self.imports.items()}

    def absolute(self, own: Names, path: Names) -> Names:
        """From the crate's root; () is a path of another crate."""
        up = sum(1 for name in path if name == "super")
        if path[0] in {"self", "super"}:
            return own[: len(own) - up] + path[max(up, 1) :]
        if path[0] == "crate":
            return path[1:]
        return own + path if (*own, path[0]) in self.texts else ()

    def file_of(self, path: Names) -> tuple[Names, Names]:
        """The file that has an item, and what follows of the path; nothing where it is the file's module itself."""
        length = max(length for length in range(len(path) + 1) if path[:length] in self.texts)
        own, rest = path[:length], path[length:]
        if rest and rest[0] in self.names[own]:
            return self.file_of((*self.names[own][rest[0]], *rest[1:]))
        return own, rest

    def used_by(self, own: Names) -> set[Names]:
        """The files that it uses."""
        paths = []
        for public, path, name in self.imports[own]:
            if path and (not public or re.search(rf"\b{name}\b", self.texts[own])):
                paths.append(path)
        for text in PATH.findall(self.texts[own]):
            path = tuple(text.split("::"))
            local = self.names[own].get(path[0])
            paths.append(local + path[1:] if local else self.absolute(own, path))
        found = [self.file_of(path) for path in paths if path]
        return {file for file, rest in found if rest and file != own}


@cache
def uses(crate: str) -> dict[Names, set[Names]]:
    """File → the files of the same crate that it uses."""
    files = Crate(ENGINE / crate / "src")
    return {own: files.used_by(own) for own in files.texts}


def circles(needs: dict[Names, set[Names]]) -> dict[str, list[str]]:
    """What is left when files that use none of the rest, or that none uses, are taken away, again and again."""
    left = dict(needs)
    while done := [
        name
        for name, targets in left.items()
        if not targets & left.keys() or not any(name in users for users in left.values())
    ]:
        for name in done:
            del left[name]
    return {"::".join(name): sorted("::".join(target) for target in left[name] & left.keys()) for name in left}


def crates() -> list[str]:
    return sorted(path.parent.name for path in ENGINE.glob("*/Cargo.toml"))


def test_every_crate_and_every_module_has_its_place() -> None:
    assert sorted(LAYERS) == crates()
    for crate, layers in LAYERS.items():
        if layers:
            assert set(layers.split()) == {file[0] for file in uses(crate) if file}, crate


@pytest.mark.parametrize("crate", crates())
def test_modules_import_only_from_the_layers_below(crate: str) -> None:
    order = LAYERS[crate].split()
    if not order:
        return
    wrong = [
        f"{crate}: {'::'.join(file)} uses {'::'.join(target)}"
        for file, targets in uses(crate).items()
        for target in targets
        if file and target and order.index(target[0]) > order.index(file[0])
    ]
    assert wrong == []


@pytest.mark.parametrize("crate", crates())
def test_no_files_use_each_other_in_a_circle(crate: str) -> None:
    assert circles(uses(crate)) == {}


CHAIN = {
    "lib.rs": "pub mod shapes;\nmod report;\npub use report::Report;",
    "report.rs": "use std::fmt::Write as _;\nuse crate::shapes::{self, Shape as Form};\nfn f() { shapes::area(Form) }",
    "shapes/mod.rs": "mod round;\nmod square;\npub use square::area;\nuse round::Round;\n"
    'pub struct Shape(Round);\n// square::area\nconst A: &str = "square::area";',
    "shapes/round.rs": "use super::area;\npub struct Round;\n#[cfg(test)]\nmod tests { use super::super::Shape; }",
    "shapes/square.rs": "pub fn area() {}",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_file_uses_those_that_have_what_it_names(tmp_path: Path) -> None:
    crate = Crate(written(tmp_path, CHAIN))
    used = {"/".join(own): sorted("/".join(target) for target in crate.used_by(own)) for own in crate.texts}
    assert used == {
        "": [],
        "report": ["shapes", "shapes/square"],
        "shapes": ["shapes/round"],
        "shapes/round": ["shapes/square"],
        "shapes/square": [],
    }
    assert circles({own: crate.used_by(own) for own in crate.texts}) == {}


@pytest.mark.parametrize(
    ("name", "more", "circle"),
    [
        ("shapes/square.rs", "use super::round::Round;", {"shapes::round", "shapes::square"}),
        ("shapes/square.rs", "fn f() -> super::round::Round {}", {"shapes::round", "shapes::square"}),
        ("shapes/round.rs", "use super::{Shape};", {"shapes", "shapes::round"}),
        ("shapes/square.rs", "use crate::{\n    Report,\n};", {"report", "shapes", "shapes::round", "shapes::square"}),
        ("report.rs", "use crate::own;", {"", "report"}),
    ],
)
def test_a_circle_is_found(tmp_path: Path, name: str, more: str, circle: set[str]) -> None:
    files = {**CHAIN, name: f"{more}\n{CHAIN[name]}"}
    if name == "report.rs":
        files["lib.rs"] += "\nfn own() { report::f() }"
    crate = Crate(written(tmp_path, files))
    assert set(circles({own: crate.used_by(own) for own in crate.texts})) == circle


def test_the_loop_knows_no_protocol_and_no_workload() -> None:
    manifest = (ENGINE / "dyno-loop/Cargo.toml").read_text(encoding="utf-8")
    assert set(re.findall(r'path = "\.\./([\w-]+)"', manifest)) == {"dyno-core"}


def test_options_are_listed_in_what_is_to_be_run_and_nowhere_else() -> None:
    source = ENGINE / "dyno-load/src"
    users = {path for path in source.rglob("*.rs") if re.search(r"\bclap::", path.read_text(encoding="utf-8"))}
    outside = {str(path.relative_to(source)) for path in users if path.parent not in {source / "cli", source / "spec"}}
    assert outside == {
        "replay/plan.rs",
        "runner/calibrate.rs",
        "runner/mod.rs",
        "sql/oltp/options.rs",
        "statements/lane.rs",
    }


@pytest.mark.parametrize("crate", crates())
def test_files_keep_their_size(crate: str) -> None:
    for path in sorted((ENGINE / crate / "src").rglob("*.rs")):
        name = str(path.relative_to(ENGINE))
        lines = len(without_tests(path.read_text(encoding="utf-8")).splitlines())
        assert lines <= LIMIT, f"{name}: {lines} lines"
