"""TPC-C 5.11: the five transactions on nine tables, by dynoload; TpmC-like, because it is not audited.

By default without key and think times, as tpcc-mysql does it: then the number is far above what the standard's
terminals could reach, and not comparable with a published tpmC. Options are passed on only if they are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from mydyno.model.definition.experiment import DataSpec, Frozen, Step


class TpccOptions(Frozen):
    """Options of the workload tpcc (dynoload tpcc run)."""

    home: Literal["fixed", "random"] = Field(
        "fixed", description="a terminal's warehouse: its own, as in the standard, or any, as in tpcc-mysql"
    )
    key_and_think_times: bool = Field(
        False, description="key and think times of the standard: at most 12.86 tpmC per warehouse"
    )
    time_factor: float = Field(1.0, gt=0, description="factor for key and think times")
    terminals: int | None = Field(
        None, ge=1, examples=[100], description="number of terminals; may exceed connections with key and think times"
    )
    stock_level: Literal["per-item", "join"] = Field(
        "per-item", description="Stock-Level's count: one statement per item as in tpcc-mysql, or one join"
    )
    pipelining: bool = Field(False, description="send a statement before answers on which it does not depend")
    stored_procedures: bool = Field(False, description="each transaction is one CALL; else client SQL")
    rate: int = Field(0, ge=0, description="planned transactions per second; 0: as many as possible")
    seed: int = Field(1, ge=0, description="seed of the operations")


TPCC_TABLES = (
    "warehouse",
    "district",
    "customer",
    "history",
    "new_orders",
    "orders",
    "order_line",
    "item",
    "stock",
)
WAREHOUSE_BYTES = 105_000_000
"""One warehouse in InnoDB after loading (about 100 MB)."""
FIXED_BYTES = 170_000_000
"""Items, system tablespace, redo."""
PREPARE_S_PER_WAREHOUSE = 6.0


def used_warehouses(data: DataSpec, steps: Sequence[Step]) -> int:
    """Warehouses that terminals order from: those of fixed homes are as many as a step has terminals, at most."""
    fixed = [step for step in steps if step.workload == "tpcc" and step.options.get("home") != "random"]
    if len(fixed) < len(steps):
        return data.warehouses
    return min(data.warehouses, max(int(step.options.get("terminals") or step.connections) for step in fixed))


def prewarm_sql() -> list[str]:
    """Statements that read each table's clustered index whole."""
    return [f"SELECT COUNT(*) FROM sbtest.{table} FORCE INDEX (PRIMARY)" for table in TPCC_TABLES if table != "history"]


def rows_bytes(data: DataSpec) -> int:
    """About the size of the tables and their indexes."""
    return data.warehouses * WAREHOUSE_BYTES


def data_bytes(data: DataSpec) -> int:
    """About the size of the loaded tables on disk."""
    return data.warehouses * WAREHOUSE_BYTES + FIXED_BYTES
