"""Servers that run already as the treatment: `dsn = "mysql://user@host:3306/sbtest"`, or a list of several instances.

The password is MYDYNO_DSN_PASSWORD_ARM, with the arm's name in capitals, or MYDYNO_DSN_PASSWORD. Verified by what the
server says of itself on mydyno's own connection, with the time of a round trip to it.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Annotated, Any

from pydantic import AfterValidator, TypeAdapter

from mydyno.errors import UserError
from mydyno.model.definition.experiment import ArmSpec, Experiment, ServerSpec, Text
from mydyno.model.stored.records import Evidence
from mydyno.servers.dsn import parse_dsn, place_of
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Address
from mydyno.treatments.base import Treatment

ROUND_TRIPS = 31
FEWEST_INSTANCES = 3
"""Of each arm, where there are several: two show too little of how far instances differ."""
_FACTS = "SELECT @@hostname, @@port, @@server_id, @@version, @@version_comment"


def _checked(setting: str | list[str]) -> str | list[str]:
    dsns = setting if isinstance(setting, list) else [setting]
    try:
        places = set(map(place_of, dsns))
    except UserError as error:
        raise ValueError(f"{error.hint} ({error.message.removeprefix('server.dsn: ')})".removeprefix("use ")) from error
    if isinstance(setting, list) and len(places) < max(len(dsns), FEWEST_INSTANCES):
        raise ValueError(f"one DSN, or those of {FEWEST_INSTANCES} different servers at least")
    return setting


SETTING: TypeAdapter[Any] = TypeAdapter(Annotated[Text | list[Text], AfterValidator(_checked)])


def dsns_of(arm: ArmSpec, otherwise: ServerSpec) -> tuple[str, ...]:
    """The external servers of an arm: its own, or the experiment's."""
    found = arm.treatments.get("dsn") or otherwise.dsn or ""
    return tuple(found) if isinstance(found, list) else (str(found),)


def places_of(experiment: Experiment) -> tuple[str, ...]:
    """Where the external servers of all arms listen, each once."""
    return tuple(dict.fromkeys(place_of(dsn) for arm in experiment.arms for dsn in dsns_of(arm, experiment.server)))


def owner_of_dsn(arm: ArmSpec) -> str:
    """The arm whose own DSN this is, for its password; empty: the experiment's."""
    return arm.name if "dsn" in arm.treatments else ""


def addresses_of(arm: ArmSpec, otherwise: ServerSpec) -> tuple[Address, ...]:
    """Where an arm's external servers are, and the account on each. Raises UserError."""
    return tuple(parse_dsn(dsn, owner_of_dsn(arm)) for dsn in dsns_of(arm, otherwise))


class DsnTreatment(Treatment):
    """One arm's running servers."""

    name = "dsn"

    def __init__(self, value: str | list[str]) -> None:
        self._dsn = value

    def obstacle(self, server: ServerSpec) -> str | None:
        """All arms are on servers that run already, or none is."""
        if server.dsn is None:
            return "every arm needs a dsn, or none: mydyno starts the servers of the others"
        if server.ssh is not None or server.hooks is not None:
            return "server.ssh and server.hooks are of one server; omit them"
        return None

    async def apply(self, instance: RunningServer) -> None:
        """Nothing: the environment connects there."""

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Host, version and the median of a few round trips."""
        async with instance.control() as control:
            ((host, port, server_id, version, comment),) = await control.rows(_FACTS)
            took_ms = []
            for _ in range(ROUND_TRIPS):
                began_s = time.perf_counter()
                await control.rows("DO 0")
                took_ms.append(1000.0 * (time.perf_counter() - began_s))
        facts: dict[str, Any] = {
            "hostname": host, "port": port, "server_id": server_id, "version": version, "version_comment": comment,
            "round_trip_ms": round(median(took_ms), 3),
        }  # fmt: skip
        text = (
            f"{host}:{port}, server_id {server_id}, {version} ({comment}); a round trip of mydyno's own connection "
            f"takes {median(took_ms):.2g} ms (median of {ROUND_TRIPS})"
        )
        return Evidence(treatment=self.name, holds=True, text=text, facts=facts, instance=instance.number)
