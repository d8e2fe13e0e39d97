"""The packages: their exact files, the same bytes from another folder, and an installation of nothing but them.

The engine is compiled without optimization here, so that this takes seconds. That two whole releases are equal byte for
byte is checked by `release/build --check`, which compiles everything twice.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from release.deb import build_deb, files_of_deb
from release.distributions import build_engine_sdist, build_mydyno, build_unoptimized_engine
from release.sbom import write_engine_sbom
from release.source import Source

from mydyno import __version__
from mydyno.errors import ArchiveError
from tests.support import ALL, ROOT
from tests.support.archives import EPOCH_S, collapsed, members
from tests.support.engine import ENGINE, compiler
from tests.support.golden import check_golden
from tests.support.not_run import note_not_run
from tests.support.patience import HANG_S

PROGRAMS = ("dynoload", "dynomem", "dynoprobe")
NEEDED = ("env", "sh", "uname")
"""Commands of the system that the installed program may start for what is tested here."""


@dataclass(frozen=True)
class Release:
    source: Source
    out: Path

    def file(self, pattern: str) -> Path:
        (path,) = self.out.glob(pattern)
        return path


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    # The time of each commit would have crates compiled again for each commit.
    source = replace(Source.of_checkout(ROOT, with_changes=True), epoch_s=EPOCH_S)
    made = Release(source, tmp_path_factory.mktemp("release"))
    copied = replace(made.source, folder=ENGINE.parent)
    target = os.environ["CARGO_TARGET_DIR"]
    # Crates that test programs need too are compiled once; before 1.91 Cargo does not know the second variable.
    folders = {"CARGO_TARGET_DIR": f"{target}/packages", "CARGO_BUILD_BUILD_DIR": target}
    build_unoptimized_engine(copied, {**compiler(), **folders}, made.out)
    build_engine_sdist(made.source, made.out)
    build_mydyno(made.source, made.out)
    return made


def test_the_wheel_of_the_engine_has_three_programs_and_find_bin(release: Release) -> None:
    wheel = release.file("mydyno_engine-*.whl")
    folder = ROOT / "engine/mydyno-engine/python/mydyno_engine"
    check_golden("files-engine-wheel.txt", collapsed(members(wheel), folder, "mydyno_engine/"))
    with zipfile.ZipFile(wheel) as archive:
        modes = {Path(info.filename).name: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    assert {name: modes[name] for name in PROGRAMS} == dict.fromkeys(PROGRAMS, 0o755)
    assert re.search(r"-py3-none-(manylinux|linux)\w*_x86_64\.whl$", wheel.name)


def test_the_deb_has_the_programs_with_manual_pages(release: Release, tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        note_not_run("the .deb of the engine: dpkg-deb is not on PATH")
        return
    deb = build_deb(release.source, with_glibc(release, tmp_path), tmp_path, effort=0)
    check_golden("files-engine-deb.txt", "\n".join(files_of_deb(deb)) + "\n")
    control = subprocess.run(["dpkg-deb", "--field", deb], capture_output=True, text=True, check=True).stdout
    fields = dict(re.findall(r"^([\w-]+): (.+)$", control, re.MULTILINE))
    assert fields["Version"] == __version__
    assert fields["Depends"] == "libc6 (>= 2.36)"
    subprocess.run(["dpkg-deb", "--extract", deb, tmp_path / "root"], check=True)
    done = subprocess.run(
        [tmp_path / "root/usr/bin/dynoprobe", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"dynoprobe {__version__}\n"
    again = tmp_path / "again"
    again.mkdir()
    assert digest(build_deb(release.source, with_glibc(release, again), again, effort=0)) == digest(deb)


def with_glibc(release: Release, folder: Path) -> Path:
    """The wheel under a name with a version of glibc, as that of a release has it."""
    wheel = folder / f"mydyno_engine-{__version__}-py3-none-manylinux_2_36_x86_64.whl"
    shutil.copy(release.file("mydyno_engine-*.whl"), wheel)
    return wheel


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_another_folder_and_another_umask_give_the_same_files(release: Release, tmp_path: Path) -> None:
    copy = tmp_path / "some/where/else"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "target", "dist", "studies", "__pycache__"))
    again = Release(replace(release.source, folder=copy), tmp_path / "out")
    before = os.umask(0o077)
    try:
        again.out.mkdir()
        build_mydyno(again.source, again.out)
        build_engine_sdist(again.source, again.out)
    finally:
        os.umask(before)
    for pattern in ("mydyno-*.whl", "mydyno-*.tar.gz", "mydyno_engine-*.tar.gz"):
        assert digest(again.file(pattern)) == digest(release.file(pattern)), pattern


def test_the_sbom_of_the_engine_names_its_crates_and_no_path_of_this_host(release: Release, tmp_path: Path) -> None:
    write_engine_sbom(release.source, release.file("mydyno_engine-*.whl"), tmp_path)
    text = (tmp_path / f"mydyno-engine-{__version__}.cdx.json").read_text()
    for words in ('"CycloneDX"', "pkg:cargo/rustls@", "pkg:cargo/dyno-load@"):
        assert words in text
    assert str(ROOT) not in text
    assert "serialNumber" not in text


@pytest.fixture(scope="module")
def installed(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment with the locked packages of others and the two wheels; the folder of its programs."""
    whole = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPYCACHEPREFIX", str(whole / "pycache"))  # the cache would keep them for ever
        yield install(release, whole / "environment")
    shutil.rmtree(whole)  # some 500 MB


def install(release: Release, folder: Path) -> Path:
    """Make the environment; the folder of its programs."""
    venv.create(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet", "--no-compile"]
    if ALL:
        locked = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", "requirements.lock"]
        done = subprocess.run([*pip, *locked], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False)
        if done.returncode and "Retrying (" in done.stderr:
            raise ArchiveError(f"pip: {done.stderr.splitlines()[0]}")
        assert done.returncode == 0, done.stderr
    else:
        (packages,) = folder.glob("lib/python*/site-packages")
        copy_locked(packages)
    # No index: the locked packages are all that mydyno needs, and the engine is the one beside it.
    own = ["--no-index", f"--find-links={release.out}", f"mydyno=={__version__}"]
    subprocess.run([*pip, *own], check=True, timeout=HANG_S)
    return folder / "bin"


def copy_locked(to: Path) -> None:
    """The locked packages, of this environment, which pip has installed by their hashes: seconds of CPU time less."""
    for line in re.findall(r"^\S+==.+(?= \\$)", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        asked = Requirement(line)
        if asked.marker is not None and not asked.marker.evaluate():
            continue
        found = distribution(asked.name)
        assert asked.specifier.contains(found.version), f"{asked} is {found.version} here"
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:  # not its commands
                (to / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(found.locate_file(file)), to / file)


def start(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run an installed program where there is no compiler, and no trace of this checkout in the environment."""
    path = folder / "bin"
    path.mkdir(exist_ok=True)
    for name in NEEDED:
        if not (path / name).exists():
            (path / name).symlink_to(str(shutil.which(name)))
    environment = {"PATH": f"{installed}:{path}", "HOME": str(folder), "LANG": "C.UTF-8"}
    assert not any(shutil.which(name, path=environment["PATH"]) for name in ("cc", "gcc", "rustc", "cargo"))
    return subprocess.run(
        [str(installed / command[0]), *command[1:]],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip


def test_the_installed_program_starts_without_a_compiler(installed: Path, tmp_path: Path) -> None:
    assert start(installed, tmp_path, "mydyno", "--version").stdout == f"mydyno {__version__}\n"
    listed = start(installed, tmp_path, "mydyno", "list")
    assert (listed.returncode, "allocators" in listed.stdout, listed.stderr) == (0, True, "")
    doctor = start(installed, tmp_path, "mydyno", "doctor").stdout
    assert f"dynomem {__version__} at {installed}" in doctor


def test_the_engine_is_found_where_it_was_installed(installed: Path, tmp_path: Path) -> None:
    code = "import mydyno_engine; print(mydyno_engine.find_bin('dynomem'))"
    assert start(installed, tmp_path, "python", "-c", code).stdout == f"{installed / 'dynomem'}\n"
    for program in PROGRAMS:
        assert start(installed, tmp_path, program, "--version").stdout == f"{program} {__version__}\n"


def test_an_installed_mydyno_can_be_copied_to_hosts(installed: Path, tmp_path: Path) -> None:
    code = (
        "from mydyno.fleet.installation import installation_of; from mydyno.hosts.paths import HostPaths\n"
        "made = installation_of(HostPaths.resolve().engine)\n"
        "print(made.program.title, *sorted(name for name in made.program.files if name.startswith('engine/')))\n"
        "print('pydantic/__init__.py' in made.packages.files, any('mydyno' in name for name in made.packages.files))"
    )
    done = start(installed, tmp_path, "python", "-c", code)
    programs = " ".join(f"engine/{name}" for name in PROGRAMS)
    assert done.stdout == f"mydyno {__version__} {programs}\nTrue False\n", done.stderr


def test_the_engine_s_wheel_needs_no_other_package(release: Release, tmp_path: Path) -> None:
    folder = tmp_path / "load-host"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", f"--target={folder}",
         str(release.file("mydyno_engine-*.whl"))],
        env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "pycache")},
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code = "from mydyno_engine import find_bin; print(find_bin('dynoload'))"
    found = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True
    )
    assert found.stdout == f"{folder / 'bin/dynoload'}\n"
