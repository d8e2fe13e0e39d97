"""Environment variables of the server, proved from /proc/PID/environ of the live process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from mydyno.model.definition.experiment import FINITE, Scalar, ServerSpec
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import RunningServer
from mydyno.treatments.base import Treatment

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
        return tuple(name for name in re.split("[: ]", self._wanted.get("LD_PRELOAD", "")) if name.startswith("/"))

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server was started by others."""
        if server.dsn is not None:
            return "an external server (dsn) was started by others; use server.name or server.basedir"
        return None

    async def apply(self, instance: RunningServer) -> None:
        """Into the process's environment."""
        instance.settings.environment.update(self._wanted)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Each variable as the live process has it."""
        actual = live_environment(instance.pid)
        wrong = [
            f"{name} is {actual.get(name, 'not set')}, wanted {value}"
            for name, value in self._wanted.items()
            if actual.get(name) != value
        ]
        text = "; ".join(wrong) or ", ".join(f"{name}={value}" for name, value in self._wanted.items())
        facts = {name: actual.get(name) for name in self._wanted}
        return Evidence(treatment=self.name, holds=not wrong, text=text, facts=facts, instance=instance.number)


def live_environment(pid: int) -> dict[str, str]:
    """/proc/PID/environ as a mapping; empty if it cannot be read."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}
