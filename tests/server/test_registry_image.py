"""Servers from a real registry on loopback: Debian's, with an image of Debian's MariaDB."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.packages.debian import DebianPackages
from mydyno.packages.oci_layout import TAG, pull
from mydyno.packages.progress import silent
from mydyno.servers.build import ServerBuild
from mydyno.servers.sources.archive import add_image
from mydyno.store.study_folder import StudyFolder
from tests.support.oci import image, layer, layout, tagged
from tests.support.patience import wait_until
from tests.support.real import Program, experiment_text, lend_cache

pytestmark = pytest.mark.exhaustive


@contextmanager
def registry(program: Path, folder: Path) -> Iterator[int]:
    """Serves images on this port of loopback, without TLS."""
    port = free_port()
    (folder / "registry.yml").write_text(
        f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {folder}/images\nhttp:\n  addr: 127.0.0.1:{port}\n"
    )
    process = subprocess.Popen([program, "serve", folder / "registry.yml"], stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: _answers(port))
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as asker:
        return asker.connect_ex(("127.0.0.1", port)) == 0


STEP = '[[steps]]\nworkload = "oltp_read_only"\nconnections = 2\nwarmup = "0s"\nmeasure = "1s"\n'


async def test_an_image_becomes_a_server_and_an_arm(
    tmp_path: Path, build: ServerBuild, real_paths: HostPaths, program: Program
) -> None:
    host = LocalHost("test-registry", None)
    packages = DebianPackages(real_paths.cache, host)
    skopeo = await packages.get(["skopeo"])
    served = await packages.get(["docker-registry"])
    root = build.basedir.parent
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in (build.program, *(root / "usr/share/mysql").rglob("*"))
        if path.is_file()
    }
    listed = subprocess.run(
        ["ldd", build.program], env=build.environment, capture_output=True, text=True, check=True
    ).stdout
    for path in map(Path, re.findall(r"(/\S+) \(0x", listed)):
        files[f"usr/lib/x86_64-linux-gnu/{path.name}"] = path.read_bytes()
    layout(tmp_path / "image", [tagged(image(tmp_path / "image", [layer(files)]), TAG)])
    with registry(served.find("usr/bin/docker-registry"), tmp_path) as port:
        reference = f"127.0.0.1:{port}/library/mariadb:10.11"
        command: list[str | Path] = [
            skopeo.find("usr/bin/skopeo"), "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false",
            f"oci:{tmp_path}/image:{TAG}", f"docker://{reference}",
        ]  # fmt: skip
        subprocess.run(command, check=True, env=skopeo.environment)
        copied = await pull(reference, tmp_path / "copied", real_paths.cache, host, silent)
        program = replace(program, prefix=[])  # in the registry's network
        _own_servers(program)
        file = program.write(experiment_text("image", _arms(reference), STEP))
        done = program.run("run", file)
        assert done.returncode == 0, done.stderr
        assert f"{reference} is {copied.digest} now" in done.stderr
    added = await add_image("own", copied, tmp_path / "cache", host, silent, reference)
    assert added.title.startswith("MariaDB 10.11")
    assert f"sha256:{added.sha256}" == copied.digest
    # The registry has ended.
    planned = program.run("plan", file)
    assert planned.returncode == 0, planned.stderr
    assert "will be fetched" not in planned.stdout
    done = program.run("run", file)
    assert done.returncode == 0, done.stderr
    for study in program.studies.iterdir():
        for run in StudyFolder(study).runs():
            assert run.valid, run.reasons
            proofs = [one for one in run.evidence if one.treatment == "server"]
            origin = f"{reference}, {copied.digest}"
            assert [one.facts["origin"] for one in proofs] == [origin] * (run.arm == "image")


def _own_servers(program: Program) -> None:
    """Let what is added stay out of the common cache."""
    servers = program.paths.cache / "servers"
    lent = servers.resolve()
    servers.unlink()
    lend_cache(lent, servers)


def _arms(reference: str) -> str:
    return f'control = "package"\npackage = {{}}\nimage = {{ server = "image:{reference}" }}\n'
