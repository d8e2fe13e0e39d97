"""Tar archives from outside, unpacked safely: the data filter refuses what leads out of the folder, links to elsewhere,
devices, and set-user-ID bits (PEP 706).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from mydyno.errors import HostError, UserError

if sys.version_info >= (3, 12):
    import tarfile
else:
    from backports import tarfile  # Debian 12's Python 3.11.2 has no filters

NAMED = 5
"""Links of a refused archive that are named, so that a message is one."""
Place = Callable[[str], str | None]
"""A member's name → its path below the folder; None: it is left out."""


def extract(archive: Path, folder: Path, place: Place) -> int:
    """Unpack the members that have a place; returns how many files.

    Compression is recognised from the content (gzip, bzip2, xz). Raises UserError for a damaged or dangerous archive,
    HostError where it cannot be written.
    """
    count = 0
    try:
        with tarfile.open(archive, "r:*") as source:
            for member in source:
                target = place(member.name.removeprefix("./"))
                if target is None:
                    continue
                moved = member.replace(name=target, deep=False)
                if moved.islnk():
                    linked = place(member.linkname.removeprefix("./"))
                    if linked is None:
                        raise UserError(f"{archive}: {member.name} is a link to {member.linkname}, which is left out")
                    moved = moved.replace(linkname=linked, deep=False)
                source.extract(moved, folder, filter="data")
                count += member.isfile()
    except tarfile.FilterError as error:
        raise UserError(f"{archive} is not unpacked: {error}", _hint(archive, place)) from error
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise HostError(f"{archive} cannot be unpacked: {error.strerror or error}") from error
        raise UserError(f"{archive} cannot be unpacked: {error}", "is it a whole tar archive?") from error
    return count


def _hint(archive: Path, place: Place) -> str:
    """What to do about a refused archive: its links to elsewhere by name, if that is all that is wrong with it."""
    links = []
    with tarfile.open(archive, "r:*") as source:
        for member in source:
            if (target := place(member.name.removeprefix("./"))) is None:
                continue
            try:
                tarfile.data_filter(member.replace(name=target, deep=False), "/nowhere")
            except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
                links.append(member.name)
            except tarfile.FilterError:
                return "take the archive from its vendor"
    named = ", ".join(links[:NAMED]) + (f" and {len(links) - NAMED} more" if len(links) > NAMED else "")
    return (
        f"links that lead out of it: {named}. If the server starts without, unpack it elsewhere, delete them, pack it "
        "again, and add that archive by its own hash; or unpack it and set server.basedir to the folder"
    )
