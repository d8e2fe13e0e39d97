"""Where the engine is found: MYDYNO_ENGINE, the package mydyno-engine, the newest that the bootstrap built."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mydyno import __version__
from mydyno.errors import HostError
from mydyno.hosts.lock import ADDRESS
from mydyno.hosts.paths import HostPaths, cache_folder, check_writable, socket_folder
from tests.support import ROOT

PACKAGE = ROOT / "engine/mydyno-engine/python"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, no MYDYNO_ENGINE, and no package mydyno-engine."""
    monkeypatch.delenv("MYDYNO_ENGINE", raising=False)
    monkeypatch.setenv("MYDYNO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "mydyno_engine", None)
    return tmp_path / "cache"


def built(cache: Path, key: str, time_s: int) -> Path:
    """An engine as the bootstrap leaves it."""
    mark = cache / "engine" / key / ".complete"
    mark.parent.mkdir(parents=True)
    mark.touch()
    os.utime(mark, (time_s, time_s))
    return mark.parent / "bin"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package mydyno-engine, as pip install --target puts it into a folder."""
    (folder / "bin").mkdir(parents=True)
    for program in ("dynoload", "dynomem", "dynoprobe"):
        (folder / "bin" / program).touch()
    (folder / "mydyno_engine").mkdir()
    (folder / "mydyno_engine/__init__.py").write_bytes((PACKAGE / "mydyno_engine/__init__.py").read_bytes())
    monkeypatch.delitem(sys.modules, "mydyno_engine")
    monkeypatch.syspath_prepend(str(folder))
    return folder / "bin"


def test_the_newest_engine_of_the_bootstrap_is_used_where_none_is_installed(cache: Path) -> None:
    newest = built(cache, "b", 2000)
    built(cache, "a", 1000)
    (cache / "engine/c").mkdir()  # being built
    assert HostPaths.resolve().engine == newest


def test_an_installed_package_comes_before_the_bootstrap_s_engine(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(cache, "a", 1000)
    programs = installed(tmp_path / "target", monkeypatch)
    assert HostPaths.resolve().engine == programs
    monkeypatch.setenv("MYDYNO_ENGINE", "/opt/engine")
    assert HostPaths.resolve().engine == Path("/opt/engine")


def test_a_package_without_its_programs_is_passed_over(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_bootstrap = built(cache, "a", 1000)
    (installed(tmp_path / "target", monkeypatch) / "dynoprobe").unlink()
    assert HostPaths.resolve().engine == of_bootstrap


def test_no_engine_at_all_is_an_error_that_names_the_package(cache: Path) -> None:
    with pytest.raises(HostError, match="dynoprobe is not at") as raised:
        HostPaths.resolve().program("dynoprobe")
    assert f"mydyno-engine {__version__}" in raised.value.hint


def test_find_bin_names_the_programs_and_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = installed(tmp_path / "target", monkeypatch)
    from mydyno_engine import find_bin

    assert find_bin() == programs / "dynoload"
    assert find_bin("dynomem") == programs / "dynomem"
    with pytest.raises(ValueError, match="its programs are dynoload, dynomem, dynoprobe"):
        find_bin("sysbench")
    (programs / "dynomem").unlink()
    with pytest.raises(FileNotFoundError, match=str(programs)):
        find_bin("dynomem")


def test_a_test_has_a_study_lock_of_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYDYNO_TEST_STUDY_LOCK", raising=False)
    assert HostPaths.resolve().study_lock_address == ADDRESS
    monkeypatch.setenv("MYDYNO_TEST_STUDY_LOCK", "mine")
    assert HostPaths.resolve().study_lock_address == "\0mine"


def set_cache(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name in ("MYDYNO_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({"MYDYNO_CACHE": "/var/a"}, "/var/a"),
        ({"XDG_CACHE_HOME": "/var/b", "HOME": "/home/c"}, "/var/b/mydyno"),
        ({"HOME": "/home/c", "MYDYNO_CACHE": ""}, "/home/c/.cache/mydyno"),
    ],
)
def test_the_cache_is_the_first_folder_that_is_set(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], cache: str
) -> None:
    set_cache(monkeypatch, variables)
    assert cache_folder() == Path(cache)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "neither HOME nor MYDYNO_CACHE is set"),
        ({"HOME": ""}, "neither HOME nor MYDYNO_CACHE is set"),
        ({"MYDYNO_CACHE": "/var/a:b"}, "has a colon, at which PATH and LD_LIBRARY_PATH are split"),
    ],
)
def test_a_cache_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    set_cache(monkeypatch, variables)
    with pytest.raises(HostError, match=words):
        cache_folder()


@pytest.mark.parametrize("name", ["t" * 110, "disk#1", "with space", "a,b"])
def test_sockets_lie_in_a_folder_with_a_short_and_plain_path(tmp_path: Path, short_folder: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(HostError, match="no folder for Unix sockets"):
        socket_folder(str(tmp_path / name))
    assert socket_folder(str(tmp_path / name), str(tmp_path / "missing"), str(short_folder)) == short_folder


def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_made(
    tmp_path: Path,
) -> None:
    check_writable(tmp_path / "new/studies", "--studies")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(
        HostError, match=f"--studies {tmp_path}/file/x cannot be written: {tmp_path}/file is not a folder"
    ):
        check_writable(tmp_path / "file/x", "--studies")
    with pytest.raises(HostError, match=f"no permission to write to {tmp_path}"):
        check_writable(tmp_path / "new", "--data", access=lambda *_: False)
