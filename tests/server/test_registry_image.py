"""`mydyno servers add --image` from a real registry on loopback: Debian's, with an image of Debian's MariaDB."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.packages.debian import DebianPackages
from mydyno.packages.images import TAG, pull
from mydyno.packages.progress import silent
from mydyno.servers.build import ServerBuild
from mydyno.servers.sources.archive import add_image
from tests.support.oci import image, layer, layout, tagged
from tests.support.patience import wait_until

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


async def test_an_image_becomes_a_server(tmp_path: Path, build: ServerBuild, real_paths: HostPaths) -> None:
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
    added = await add_image("own", copied, tmp_path / "cache", host, silent, reference)
    assert added.title.startswith("MariaDB 10.11")
    assert f"sha256:{added.sha256}" == copied.digest
