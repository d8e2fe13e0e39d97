"""Compression of the protocol: `compression = "off"`, "zlib", "zstd", or { algorithm, level }.

Proved twice in every run: by the Compression status of a session on the load's own path, and after each load level by
dynoload's count of bytes below compression, before TLS, against that of the protocol's packets. zstd needs MySQL >=
8.0.18 (MariaDB has zlib alone). Both sides use zstd's level; zlib's is the load's alone, the server compresses at 6.
Small packets (< 50 bytes) are never compressed, and get 7 bytes longer. The gain depends on `data.text`: zlib 6 leaves
0.53 of `digits`, 0.44 of `words`, 0.76 of `random`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationInfo, field_validator

from mydyno.errors import ServerError
from mydyno.model.definition.experiment import Frozen, ServerSpec
from mydyno.model.stored.records import Evidence, StepRecord
from mydyno.servers.catalogue import known_servers
from mydyno.servers.running.base import LOAD_USER, RunningServer
from mydyno.servers.running.private import as_private
from mydyno.store.samples import Sample
from mydyno.treatments.client_path import (
    ConnectionTreatment,
    configure_client_path,
    external_obstacle,
    open_sessions,
    session_status,
)
from mydyno.workloads.oltp import CONNECT

AlgorithmName = Literal["off", "zlib", "zstd"]
STATUS = session_status("Compression", "Compression_algorithm", "Compression_level")
SAME_SHARE = 0.002
"""Compressed bytes differ from those of the packets by more: less, or by the headers of 7 bytes where they do not get
less."""
UNCOMPRESSED_SHARE = 0.02
"""Bytes without compression differ by less, for packets that were incomplete when the window began or ended."""


class CompressionSetting(Frozen):
    """{ algorithm = "zstd", level = 3 }."""

    algorithm: AlgorithmName
    level: int | None = Field(
        None, ge=1, le=22, description="zlib: 1 to 9, zstd: 1 to 22; default: the algorithm's own"
    )

    @field_validator("level")
    @classmethod
    def _level_fits(cls, level: int | None, info: ValidationInfo) -> int | None:
        algorithm = info.data.get("algorithm")
        if level is not None and (algorithm == "off" or (algorithm == "zlib" and level > 9)):
            raise ValueError(f"{algorithm} has no level {level}")
        return level


SETTING: TypeAdapter[Any] = TypeAdapter(AlgorithmName | CompressionSetting)


class CompressionTreatment(ConnectionTreatment):
    """One arm's compression."""

    name = "compression"

    def __init__(self, value: str | dict[str, Any]) -> None:
        self.setting = CompressionSetting.model_validate({"algorithm": value} if isinstance(value, str) else value)

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server is checked when the run begins."""
        return None if server.dsn is None else external_obstacle(server)

    def server_obstacle(self, server: ServerSpec) -> str | None:
        """MariaDB's protocol and that of MySQL before 8.0.18 support zlib only."""
        entry = known_servers().get(server.name or "")
        has_zstd = "zstd" in entry.traits.compression if entry else not (server.name or "").startswith("mariadb")
        if self.setting.algorithm == "zstd" and not has_zstd:
            return f'{server.name} compresses with zlib only; set "zlib", or use MySQL >= 8.0.18'
        return None

    def driver_obstacle(self, driver: str) -> str | None:
        """sysbench 1.0.20 knows zlib without a level, and counts no bytes."""
        if self.setting.algorithm != "off" and driver != "dynoload":
            return f'{driver} does not count the bytes that prove compression; set driver = "dynoload" in [[steps]]'
        return None

    async def apply(self, instance: RunningServer) -> None:
        """To the load, and to a server that chooses among several. Raises ServerError if it lacks the algorithm."""
        algorithm, level = self.setting.algorithm, self.setting.level
        specified = algorithm if level is None else f"{algorithm}:{level}"
        if not instance.is_private:
            configure_client_path(instance, compression=specified)
            return
        version = as_private(instance).build.version
        chooses = version.flavour == "mysql" and version.number >= (8, 0, 18)
        if algorithm == "zstd" and not chooses:
            raise ServerError(f"{version.name} compresses with zlib only; zstd needs MySQL >= 8.0.18")
        if chooses:
            # It prefers zlib where it may; "uncompressed" stays for mydyno's own sessions.
            allowed = "uncompressed" if algorithm == "off" else f"{algorithm},uncompressed"
            instance.settings.variables["protocol_compression_algorithms"] = allowed
        configure_client_path(instance, compression=specified)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Compression, algorithm and level, as far as the server reports them, of a session on the load's own path."""
        try:
            (session,) = await open_sessions(self.program, instance.host, instance.address(LOAD_USER), [STATUS])
        except ServerError as error:
            return Evidence(treatment=self.name, holds=False, text=error.message, instance=instance.number)
        facts: dict[str, Any] = dict(session.status)
        status = facts.get("Compression", "unknown")
        holds = status == ("OFF" if self.setting.algorithm == "off" else "ON")
        reported = facts.get("Compression_algorithm")
        if reported and self.setting.algorithm != "off":
            holds = holds and reported == self.setting.algorithm
        words = ", ".join(f"{name} {value}" for name, value in facts.items() if value)
        text = f"a session on the load's path has {words or 'no Compression status'}"
        text += "" if holds else f", wanted {self.setting.algorithm}"
        return Evidence(treatment=self.name, holds=holds, text=text, facts=facts, instance=instance.number)

    def load_evidence(self, step: StepRecord, samples: Sequence[Sample]) -> Evidence:
        """Bytes below compression against bytes in packets, as the driver counted them, and the interface's bytes."""
        if step.workload == CONNECT:
            text = f"{step.id}: connections end with their login, before the first packet that could be compressed"
            return Evidence(treatment=self.name, holds=True, text=text, facts={"step": step.id})
        traffic = step.driver.traffic
        raw, compressed = traffic.get("raw_received_bytes", 0), traffic.get("compressed_received_bytes", 0)
        if not raw or not compressed:
            holds = self.setting.algorithm == "off" and not traffic
            text = f"{step.id}: {step.driver.driver} counts no bytes"
            return Evidence(treatment=self.name, holds=holds, text=text, facts={"step": step.id})
        share = compressed / raw
        sent_share = traffic.get("compressed_sent_bytes", 0) / (traffic.get("raw_sent_bytes") or 1) or share
        difference = max(abs(share - 1), abs(sent_share - 1))
        wanted = self.setting.algorithm != "off"
        holds = difference > SAME_SHARE if wanted else difference <= UNCOMPRESSED_SHARE
        text = (
            f"{step.id}: {raw / 1e6:.1f} MB of packets came as {compressed / 1e6:.1f} MB "
            f"({share:.2f}; sent: {sent_share:.2f})"
        )
        if wanted and holds and min(share, sent_share) >= 1:
            text += ": the packets are too small to be compressed"
        text += "" if holds else f", wanted {self.setting.algorithm}"
        facts: dict[str, Any] = {"step": step.id, "received_share": round(share, 4), **traffic}
        carried = interface_bytes(step, samples)
        if carried is not None:
            facts["interface_bytes"] = round(carried)
            text += f"; the server's interface sent {carried / 1e6:.1f} MB"
        return Evidence(treatment=self.name, holds=holds, text=text, facts=facts)


def interface_bytes(step: StepRecord, samples: Sequence[Sample]) -> float | None:
    """Bytes that the sampled interfaces sent during the measured window; None if no interval between two samples lies
    in it (a rate is that of the time since the sample before).
    """
    begin = step.started_unix_ns + step.warmup_s * 1e9
    end = begin + step.measure_s * 1e9
    sent = [one for one in samples if one.scope == "host" and one.metric == "network_tx_bytes_per_s"]
    inside = [two.value for one, two in pairwise(sent) if begin <= one.unix_ns and two.unix_ns <= end]
    return sum(inside) / len(inside) * step.measure_s if inside else None
