"""Where the programs of this package are installed: dynoload, dynoprobe and dynomem."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PROGRAMS = ("dynoload", "dynomem", "dynoprobe")


def find_bin(program: str = "dynoload") -> Path:
    """The absolute path of an installed program; all of them are in one folder.

    Raises ValueError if there is no such program, FileNotFoundError if it is not where installers put programs.
    """
    if program not in PROGRAMS:
        raise ValueError(f"{program!r} is not a program of mydyno-engine; its programs are {', '.join(PROGRAMS)}")
    places = list(dict.fromkeys(_places(program)))
    for place in places:
        if place.is_file():
            return place
    looked_at = ", ".join(str(place.parent) for place in places)
    raise FileNotFoundError(f"{program} is not installed with mydyno-engine; looked in {looked_at}")


def _places(program: str) -> Iterator[Path]:
    """What the installer recorded comes first, then the folders that installers use without a record of it."""
    try:
        for file in distribution("mydyno-engine").files or ():
            if file.name == program:
                yield Path(str(file.locate())).resolve()
    except PackageNotFoundError:
        pass
    yield Path(sysconfig.get_path("scripts"), program)
    yield Path(sysconfig.get_path("scripts", "posix_user"), program)
    # pip install --target FOLDER: FOLDER/bin beside FOLDER/mydyno_engine
    yield Path(__file__).resolve().parent.parent / "bin" / program
