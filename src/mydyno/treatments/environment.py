"""Environment variables of the server, proved from /proc/PID/environ of the live process, and libraries of LD_PRELOAD
from its maps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from mydyno.model.definition.experiment import FINITE, Scalar, ServerSpec
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import RunningServer
from mydyno.treatments.base import Treatment
from mydyno.treatments.dynamic_linker import mapped_files

SETTING: TypeAdapter[Any] = TypeAdapter(
    dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Scalar], config=FINITE
)


class EnvironmentTreatment(Treatment):
    """Environment variables of one arm."""

    name = "environment"

    def __init__(self, value: dict[str, Scalar]) -> None:
        self._wanted = {name: str(setting) for name, setting in value.items()}

    @property
    def files(self) -> tuple[str, ...]:
        """Libraries of LD_PRELOAD that are named by a path: one that is missing would be ignored silently."""
        return tuple(name for name in self._libraries if name.startswith("/"))

    @property
    def _libraries(self) -> list[str]:
        return list(filter(None, re.split("[: ]", self._wanted.get("LD_PRELOAD", ""))))

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server was started by others."""
        if server.dsn is not None:
            return "an external server (dsn) was started by others; use server.name or server.basedir"
        return None

    async def apply(self, instance: RunningServer) -> None:
        """Into the process's environment; its user can enter the folders of the libraries."""
        instance.settings.environment.update(self._wanted)
        places = [place for name in self.files for place in (Path(name), Path(name).resolve())]
        instance.settings.folders += [place.parent for place in places if place.is_file()]

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Each variable as the live process has it, and each library of LD_PRELOAD as it is mapped there."""
        actual = live_environment(instance.pid)
        wrong = [
            f"{name} is {actual.get(name, 'not set')}, wanted {value}"
            for name, value in self._wanted.items()
            if actual.get(name) != value
        ]
        mapped = [Path(path) for path in mapped_files(instance.pid) or ()]
        folders = re.split("[:;]", self._wanted.get("LD_LIBRARY_PATH", ""))
        wrong += [
            f"{name} of LD_PRELOAD is not mapped: the dynamic linker did not load it"
            for name in self._libraries
            if not any(_is_library(name, path, folders) for path in mapped)
        ]
        text = "; ".join(wrong) or ", ".join(f"{name}={value}" for name, value in self._wanted.items())
        facts = {name: actual.get(name) for name in self._wanted}
        return Evidence(treatment=self.name, holds=not wrong, text=text, facts=facts, instance=instance.number)


def _is_library(name: str, mapped: Path, folders: Sequence[str]) -> bool:
    """Whether a mapped file is the one that LD_PRELOAD names by a path, or else by a name that may be a link: beside
    it, or in these folders.
    """
    if name.startswith("/") and "$" not in name:
        return Path(name).resolve() == mapped
    last = name.rpartition("/")[2]
    links = (Path(folder, last).resolve() for folder in (str(mapped.parent), *filter(None, folders)))
    return f"{mapped.name}.".startswith(f"{last}.") or mapped in links


def live_environment(pid: int) -> dict[str, str]:
    """/proc/PID/environ as a mapping; empty if it cannot be read."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}
