"""What a run needs of a workbench; there is one for private servers, one for an external server, and a test's fake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from mydyno.drivers.base import Driver
from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import ArmSpec, Experiment
from mydyno.model.records import Evidence
from mydyno.servers.instance import ALONE, Place

Say = Callable[[str], None]
"""Tells a person what is being done."""


class Bench(Protocol):
    """The workbench of one study."""

    settings: Settings
    experiment: Experiment
    host: LocalHost
    drivers: dict[str, Driver]
    scratch: Path
    """The runs' data directories."""
    sockets: Path
    """A folder with a short path (sun_path holds 108 bytes) for sockets and password files."""
    versions: dict[str, str]
    restores_data: ClassVar[bool]
    """Whether each run begins with the same data."""

    def instance(self, folder: Path, log: Path, number: int = 1, place: Place = ALONE, arm: str | None = None) -> Any:
        """A server of an arm (None: the control), not yet started; `number` counts from 1 inside a run."""

    def probe(self, instances: Sequence[Any], speed_meter: bool = False) -> Any:
        """The sampler of one run, not yet started."""

    async def canary(self) -> dict[str, float]:
        """How fast this host is at this moment: see hosts/canary.py."""

    async def rehearse(self, say: Say) -> list[Evidence]:
        """Try what treatments can be tried without a server, before the first block. Raises HostError."""

    async def template(self, arm: ArmSpec, say: Say) -> Any:
        """The arm's prepared data; made now where no study made it before."""

    async def restore(self, template: Any, instance: Any) -> None:
        """Give the instance its own copy of the template."""

    async def prewarm(self, instance: Any) -> None:
        """Read all data once, so that no run begins colder than another."""

    def close(self) -> list[str]:
        """Undo everything that is still open; gives what could not be."""


Opener = Callable[[Settings, Experiment, str, Path, Say], Awaitable[Bench]]
"""Makes a study's workbench: settings, experiment, study's name, study's folder, where to say what is being done."""
