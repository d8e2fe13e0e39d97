"""The files of the packages that need no compiler; tests/release builds the programs and installs everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from release.distributions import build_engine_sdist, build_mydyno
from release.source import Source

from mydyno import __version__
from tests.support import ROOT
from tests.support.archives import EPOCH_S, collapsed, members
from tests.support.golden import check_golden


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheel and the two sdists."""
    source = replace(Source.of_checkout(ROOT, with_changes=True), epoch_s=EPOCH_S)
    out = tmp_path_factory.mktemp("packages")
    build_mydyno(source, out)
    build_engine_sdist(source, out)
    return out


def file_in(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def test_the_wheel_of_mydyno_has_its_package_and_nothing_else(built: Path) -> None:
    names = members(file_in(built, "mydyno-*.whl"))
    check_golden("files-mydyno-wheel.txt", collapsed(names, ROOT / "src/mydyno", "mydyno/"))


def test_the_sdist_of_mydyno_has_what_a_wheel_is_built_from(built: Path) -> None:
    names = members(file_in(built, "mydyno-*.tar.gz"))
    check_golden("files-mydyno-sdist.txt", collapsed(names, ROOT / "src/mydyno", f"mydyno-{__version__}/src/mydyno/"))


def test_the_sdist_of_the_engine_has_the_whole_workspace(built: Path) -> None:
    names = members(file_in(built, "mydyno_engine-*.tar.gz"))
    # maturin lays the workspace out anew; every source of every crate that is linked must be there.
    for crate in ("dyno-core", "dyno-kv", "dyno-load", "dyno-loop", "dyno-memory", "dyno-mysql", "dyno-probe"):
        sources = {str(path.relative_to(ROOT / "engine")) for path in (ROOT / "engine" / crate / "src").rglob("*.rs")}
        assert sources <= {name.split("/", 1)[1].removeprefix("engine/") for name in names}, crate
    assert any(name.endswith("/Cargo.lock") for name in names)
