"""The compiler and the settings of a release, on one small program with LuaJIT: it links, and errors pass through it.

`release/build` compiles with zig, and nothing else in the tests does. The program has the LuaJIT of dynoload and is
made as a release is: by maturin, with its options, environment and profile. Empty target folder:
a minute of CPU time, most of it zig's own libraries; afterwards a few seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.exhaustive

CRATE = Path(__file__).parent / "lua_error"
NAME = "lua-error"
TOOLS = 'source bootstrap.sh; mydyno_tool_environment "$PWD" release/requirements.lock; printf %s "$MYDYNO_PYTHON"'
BUILD = """
import sys
from dataclasses import replace
from pathlib import Path

from release.distributions import RELEASE_OPTIONS
from release.source import Source, run
checkout, crate, target, out = map(Path, sys.argv[1:])
# The time of a commit of its own would have everything compiled again for each commit.
source = replace(Source.of_checkout(checkout, with_changes=True), epoch_s=1)
run(["maturin", "build", "--strip", *RELEASE_OPTIONS, "--out", str(out)], crate, source.environment(target))
"""


def manifest() -> str:
    """With the engine's own mlua, profile and edition. Values of TOML that JSON writes alike."""
    workspace = tomllib.loads((ROOT / "engine/Cargo.toml").read_text())
    mlua = tomllib.loads((ROOT / "engine/dyno-load/Cargo.toml").read_text())["dependencies"]["mlua"]
    version, features = json.dumps(mlua["version"]), json.dumps(mlua["features"])
    profile = "\n".join(f"{name} = {json.dumps(value)}" for name, value in workspace["profile"]["release"].items())
    edition = workspace["workspace"]["package"]["edition"]
    return (
        f'[package]\nname = "{NAME}"\nversion = "0.0.0"\nedition = "{edition}"\n[workspace]\n'
        f'[[bin]]\nname = "{NAME}"\npath = "main.rs"\n'
        f"[dependencies]\nmlua = {{ version = {version}, features = {features} }}\n[profile.release]\n{profile}\n"
    )


def write_crate(folder: Path) -> None:
    """The crate at a place that stays the same, so that the next build finds this one's. With the engine's lock."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(CRATE / "main.rs", folder)
    shutil.copy(ROOT / "engine/Cargo.lock", folder)
    (folder / "Cargo.toml").write_text(manifest())
    build = '[build-system]\nrequires = ["maturin"]\nbuild-backend = "maturin"\n'
    project = f'[project]\nname = "{NAME}"\nversion = "0.0.0"\n[tool.maturin]\nbindings = "bin"\n'
    (folder / "pyproject.toml").write_text(build + project)


def test_a_program_with_luajit_that_is_built_as_a_release_passes_errors(tmp_path: Path) -> None:
    target = Path(os.environ["CARGO_TARGET_DIR"]) / "zig"
    write_crate(target / "lua-error")
    python = subprocess.run(["bash", "-euc", TOOLS], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    done = subprocess.run(
        [python, "-c", BUILD, ROOT, target / "lua-error", target, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-20000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(f"/scripts/{NAME}"))
        program = Path(archive.extract(member, tmp_path))
    program.chmod(0o755)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    in_rust, in_lua, jit = done.stdout.splitlines()
    assert in_rust.startswith("false ")
    assert "raised in Rust" in in_rust
    assert in_lua.startswith("false ")
    assert "raised in Lua" in in_lua
    assert jit.startswith("LuaJIT 2.1")
    assert jit.endswith(" true"), "a panic of Rust was caught"
