"""All workloads by name: options, and which drivers can run them."""

from __future__ import annotations

from dataclasses import dataclass

from mydyno.model.definition.experiment import Frozen
from mydyno.workloads.data import DATA
from mydyno.workloads.files import REPLAY, SCRIPT, SQL, FileOptions, ReplayOptions, ScriptOptions
from mydyno.workloads.kv import KV_SECOND_OPINIONS, KV_WORKLOADS, KvOptions
from mydyno.workloads.oltp import CONNECT, OLTP_WORKLOADS, ConnectOptions, OltpOptions
from mydyno.workloads.tpcc import TpccOptions


@dataclass(frozen=True)
class Workload:
    """The operations, in one line."""

    name: str
    description: str
    data: str
    """The data it needs (data.workload)."""
    options: type[Frozen]
    drivers: tuple[str, ...]


ANY_SQL = "any SQL"
"""The data of a workload that runs on whatever tables its file is for."""

WORKLOADS: dict[str, Workload] = {
    **{
        name: Workload(name, description, "oltp", OltpOptions, ("dynoload", "sysbench"))
        for name, description in OLTP_WORKLOADS.items()
    },
    CONNECT: Workload(
        CONNECT,
        "connect, TLS handshake, log in, disconnect: connections per second",
        "oltp",
        ConnectOptions,
        ("dynoload",),
    ),
    "tpcc": Workload("tpcc", "the five transactions of TPC-C", "tpcc", TpccOptions, ("dynoload",)),
    **{
        name: Workload(name, description, "kv", KvOptions, ("dynoload", *KV_SECOND_OPINIONS.get(name, ())))
        for name, description in KV_WORKLOADS.items()
    },
    SCRIPT: Workload(SCRIPT, "a Lua script of sysbench", ANY_SQL, ScriptOptions, ("dynoload",)),
    SQL: Workload(SQL, "a file of SQL transactions", ANY_SQL, FileOptions, ("dynoload",)),
    REPLAY: Workload(REPLAY, "the transactions of a capture", ANY_SQL, ReplayOptions, ("dynoload",)),
}
DATA_WORKLOADS = tuple(DATA)
