"""Keys and values over memcached's protocol: of memcached itself, or of MySQL's InnoDB memcached plugin; by dynoload.

The table lies empty in the template; every run stores all keys over the protocol before its first step, so that cache
and table hold what the arm's policy puts there, and each step finds the same keys whatever ran before it. Options are
passed on only if they are set.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.language import agreed
from mydyno.model.definition.experiment import DataSpec, Frozen
from mydyno.model.definition.quantities import ShareUpToAll


class KvOptions(Frozen):
    """Options of the workloads of keys and values (dynoload kv run)."""

    ratio: str | None = Field(
        None,
        pattern=r"^\d+:\d+$",
        examples=["90:10"],
        description="ratio of gets to sets; 90:10 in kv_mixed, not allowed in the others",
    )
    key_choice: str | None = Field(
        None,
        examples=["zipfian:0.99"],
        description="distribution of keys: uniform (default), zipfian:0.99, hotspot:10%:90%, latest:0.99 or "
        "sequential; not allowed in kv_ycsb_*",
    )
    hit_ratio: str | None = Field(
        None, pattern=r"^\d+(\.\d+)?%$", examples=["95%"], description="share of gets for keys that were stored"
    )
    verify: str | None = Field(
        None,
        pattern=r"^\d+(\.\d+)?%$",
        examples=["5%"],
        description="share of found values that are compared; default: 1%",
    )
    protocol: Literal["text", "binary"] = Field("text", description="protocol; the plugin does not support meta")
    depth: int = Field(1, ge=1, le=1024, description="operations in progress on each connection")
    threads: int | None = Field(
        None, ge=1, examples=[2], description="dynoload's threads; default: one for 64 connections"
    )
    rate: int = Field(0, ge=0, description="planned operations per second; 0: as many as possible")
    seed: int = Field(1, ge=0, description="seed of the operations")
    overwrite: ShareUpToAll | None = Field(
        None, examples=["20%"], description="memaslap only: share of sets of a key that was set before"
    )
    execute_number: int | None = Field(
        None, ge=1, examples=[50_000], description="memslap only: operations of each thread; default: 10000"
    )


KV_WORKLOADS: dict[str, str] = {
    "kv_set": "one set of a key that is stored already",
    "kv_get": "one get",
    "kv_mixed": "nine gets to one set",
    "kv_ycsb_a": "as YCSB's A: a get or a set of a popular key, half each",
    "kv_ycsb_b": "as YCSB's B: 95 % gets, 5 % sets of popular keys",
    "kv_ycsb_c": "as YCSB's C: gets of popular keys",
    "kv_ycsb_d": "as YCSB's D: 95 % gets of the newest keys, 5 % sets of new ones",
    "kv_ycsb_f": "as YCSB's F: a get of a popular key, or gets and cas of one, half each",
}
KV_SECOND_OPINIONS = {"kv_set": ("memslap",), "kv_get": ("memslap",), "kv_mixed": ("memaslap",)}
"""The programs of libmemcached that can also run a workload."""
STORED_PER_S = 8_000.0
"""Keys stored before the first step, over the protocol into InnoDB without a sync per commit (measured: 2,000 to
20,000)."""
ROW_OVERHEAD_BYTES = 60
FIXED_BYTES = 190_000_000
"""System tablespace and redo of a fresh MySQL 5.6."""
SPARE_VALUE_BYTES = 64


def schema_sql(data: DataSpec) -> list[str]:
    """The table that the plugin keeps the keys in: wide enough for the workload's, and for mydyno's own proofs.

    VARCHAR of a one-byte character set: memcached's keys and values are bytes, and 5.6.14's plugin takes no BLOB as a
    key. The key column is VARCHAR(250), the longest key of the protocol.
    """
    width = data.value_bytes + SPARE_VALUE_BYTES
    text = "CHARACTER SET latin1 COLLATE latin1_bin"
    return [
        f"CREATE TABLE sbtest.kv (k VARCHAR(250) {text} NOT NULL PRIMARY KEY, v VARCHAR({width}) {text}, "
        "flags INT NOT NULL DEFAULT 0, cas BIGINT UNSIGNED NOT NULL DEFAULT 0, expires INT NOT NULL DEFAULT 0) "
        "ENGINE = InnoDB"
    ]


def data_words(data: DataSpec) -> str:
    """The keys and their values."""
    return agreed(
        "{keys} keys of {key_bytes} bytes, values of {value_bytes}".format(
            keys=f"{data.keys:,}", key_bytes=data.key_bytes, value_bytes=data.value_bytes
        )
    )


def data_bytes(data: DataSpec) -> int:
    """About the size on disk once all keys are stored; InnoDB leaves pages filled at random half empty at worst."""
    return FIXED_BYTES + rows_bytes(data)


def rows_bytes(data: DataSpec) -> int:
    """About the size of the table once all keys are stored."""
    return int(data.keys * (data.key_bytes + data.value_bytes + ROW_OVERHEAD_BYTES) * 1.5)


def prewarm_sql() -> list[str]:
    """Reads the table whole; run after the keys were stored."""
    return ["SELECT COUNT(*), SUM(LENGTH(v)) FROM sbtest.kv FORCE INDEX (PRIMARY)"]
