"""Checks the load: the operations counted by the driver are compared with the server's counters."""

from __future__ import annotations

from collections.abc import Mapping

from mydyno.model.stored.costs import SERVER_COUNTERS
from mydyno.workloads.oltp import CONNECT

WRITES = (
    "Com_insert",
    "Com_update",
    "Com_delete",
    "Com_replace",
    "Com_insert_select",
    "Com_update_multi",
    "Com_delete_multi",
    "Com_replace_select",
)
"""Each statement that writes raises one of them. A study of an earlier mydyno has the first four."""
CACHED = "Qcache_hits"
"""Reads that the query cache answered: in MySQL counted there alone, in MariaDB by Com_select, too."""
COUNTERS = (
    "Questions",
    "Com_select",
    CACHED,
    *WRITES,
    "Com_commit",
    "Com_rollback",
    "Com_call_procedure",
    "Slow_queries",
    "Aborted_clients",
    "Aborted_connects",
    "Connections",
    "Ssl_accepts",
    "Ssl_finished_accepts",
    "Ssl_session_cache_hits",
    "Bytes_sent",
    "Bytes_received",
    "Innodb_buffer_pool_read_requests",
    "Innodb_rows_inserted",
    "Innodb_rows_updated",
    "Innodb_rows_deleted",
    "memcached_cmd_get",
    "memcached_cmd_set",
    "memcached_get_hits",
    "memcached_get_misses",
    "memcached_evictions",
)
TOLERANCE = 0.005
SLACK = 300
"""Statements of mydyno's own (control, probe) that the server counts too."""


def growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """How much each counter grew; a counter that went backwards or is unknown is absent."""
    return {
        name: after[name] - before[name]
        for name in (*COUNTERS, *SERVER_COUNTERS)
        if name in before and name in after and after[name] >= before[name]
    }


def disagreements(
    workload: str, whole: Mapping[str, int], counted: Mapping[str, float], *, shared: bool = False
) -> list[str]:
    """Sentences on reads, writes and calls where driver and server differ by more than 0.5 %; empty if they agree.

    For the workload connect, connections are compared too: each of its transactions is one.

    `whole` has the driver's read and write counts of the whole step, or its calls if it used stored procedures;
    `counted` the server's growth over it. Statements of transactions that were rolled back and begun again are counted
    by the server alone, so only a server that counts less than the driver, or far more, disagrees. Where its questions,
    which are what clients send, agree, more reads and writes are those of triggers and routines. `shared`: the server
    has users of its own, and what it counts more is theirs.
    """
    found = []
    has_inner = _sent_no_more(whole, counted)
    pairs = (
        ("reads", whole.get("read"), ("Com_select",)),
        ("writes", _writes(whole), tuple(name for name in WRITES if name in counted) or WRITES),
        ("deleted rows", whole.get("write") if workload == "oltp_delete" else None, ("Innodb_rows_deleted",)),
        ("calls", whole.get("calls"), ("Com_call_procedure",)),
        ("gets", whole.get("cmd_get"), ("memcached_cmd_get",)),
        ("sets", _sets(whole, counted), ("memcached_cmd_set",)),
        ("hits", whole.get("get_hits"), ("memcached_get_hits",)),
        ("misses", whole.get("get_misses"), ("memcached_get_misses",)),
        ("connections", whole.get("transactions") if workload == CONNECT else None, ("Connections",)),
    )
    for name, by_driver, counters in pairs:
        if by_driver is None or any(counter not in counted for counter in counters):
            continue
        by_server = sum(counted[counter] for counter in counters)
        if name == "reads":
            by_server += min(counted.get(CACHED, 0), max(0, by_driver - by_server))
        if by_server > by_driver and (shared or (has_inner and name in ("reads", "writes"))):
            continue
        if abs(by_server - by_driver) > max(by_driver, by_server) * TOLERANCE + SLACK:
            found.append(f"the driver counted {by_driver} {name}, the server {by_server:.0f} ({' + '.join(counters)})")
    return found


def _sent_no_more(whole: Mapping[str, int], counted: Mapping[str, float]) -> bool:
    """Whether the server has got no more statements than the driver sent, whatever it executed for them."""
    sent = sum(whole.get(name, 0) for name in ("read", "write", "other"))
    return "read" in whole and "Questions" in counted and counted["Questions"] <= sent * (1 + TOLERANCE) + SLACK


def _writes(whole: Mapping[str, int]) -> int | None:
    """The driver's writes as the server counts them: also those that changed no row."""
    return whole["write"] + whole.get("unchanged", 0) if "write" in whole else None


def _sets(whole: Mapping[str, int], counted: Mapping[str, float]) -> int | None:
    """The driver's sets as the server counts them: memcached with cas, the InnoDB plugin of MySQL without (5.6.14)."""
    sets = whole.get("cmd_set")
    is_plugin = any(name.startswith("Innodb_") for name in counted)
    return sets - whole.get("cas", 0) if sets is not None and is_plugin else sets
