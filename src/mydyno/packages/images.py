"""Container images from a registry, copied into an OCI image layout by skopeo: the host's own, or Debian's package."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from mydyno.errors import ArchiveError, UserError
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages
from mydyno.packages.oci_layout import Image, read_image

TAG = "image"
TIMEOUT_S = 3600.0
_REFERENCE = re.compile(
    r"[a-z0-9][a-z0-9.-]*(?::\d+)?(?:/[a-z0-9._-]+)+(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?", re.ASCII
)
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1)(:\d+)?/")


def check_reference(reference: str) -> None:
    """Raises UserError for what is no image of a registry."""
    if not _REFERENCE.fullmatch(reference):
        raise UserError(
            f"{reference}: not an image", "REGISTRY/NAME:TAG, as in docker.io/library/mysql:8.4, or @sha256:…"
        )


def copy_command(reference: str, folder: Path | str, skopeo: str = "skopeo") -> Sequence[str]:
    """What copies an image into a layout in `folder`. A registry on loopback may have no TLS."""
    plain = ["--src-tls-verify=false"] if _LOOPBACK.match(reference) else []
    return [skopeo, "--insecure-policy", "copy", "--quiet", *plain, f"docker://{reference}", f"oci:{folder}:{TAG}"]


async def pull(reference: str, folder: Path, cache: Path, host: LocalHost, say: Callable[[str], None]) -> Image:
    """The image in a layout in `folder`. Raises HostError with skopeo's words."""
    skopeo, environment = shutil.which("skopeo"), None
    if skopeo is None:
        packages = await DebianPackages(cache, host).get(["skopeo"])
        skopeo, environment = str(packages.find("usr/bin/skopeo")), packages.environment
    say(f"copying {reference}")
    command = copy_command(reference, folder, skopeo)
    done = await host.run(command, environment=environment, timeout_s=TIMEOUT_S)
    if done.exit_code:
        raise ArchiveError(f"{reference} cannot be copied: {' '.join(done.output.split())[-500:]}")
    return read_image(folder, TAG)
