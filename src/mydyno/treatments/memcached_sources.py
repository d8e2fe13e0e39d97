"""Where a step's hits and sets went, and what memory the server took meanwhile, from its own counters and samples.

memcached's own get_hits does not distinguish the sources: the plugin counts a hit in the table like one in the cache.
Nor does Innodb_rows_read, which does not include the plugin's gets (5.6.14, tested). Innodb_buffer_pool_read_requests
does: a get from the table reads a page on each level of the index, a get from the cache reads none. Sets of the table
count as Innodb_rows_inserted and Innodb_rows_updated. Counters are of the whole step, warm-up included; the memory's
growth is of the measured window's samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mydyno.model.stored.records import Evidence, StepRecord
from mydyno.store.samples import Sample

SLACK = 0.05
OF_OTHERS = 5_000
"""Pages that InnoDB reads within a step for other purposes than the load (statistics, purge, mydyno itself)."""
REPORTED_GROWTH_BYTES = 100_000
TABLE = ("innodb_only", "caching")


def sources_of_hits(
    treatment: str, policies: Mapping[str, str] | None, step: StepRecord, samples: Sequence[Sample]
) -> Evidence:
    """One sentence and its facts; it does not hold if gets or sets went to the wrong place for the policy.

    `policies` is None for a memcached without a table.
    """
    counted = step.server_counters
    gets, hits = counted.get("memcached_cmd_get", 0.0), counted.get("memcached_get_hits", 0.0)
    facts: dict[str, Any] = {
        "step": step.id,
        **{name: counted[name] for name in sorted(counted) if name.startswith(("memcached_", "Innodb_"))},
        **step.driver.key_values,
    }
    found = [] if not gets else [f"{hits:,.0f} of {gets:,.0f} gets found their key ({hits / gets:.1%})"]
    holds = True
    sets = counted.get("memcached_cmd_set", 0.0)
    if policies is not None and "Innodb_buffer_pool_read_requests" in counted:
        pages = counted["Innodb_buffer_pool_read_requests"]
        rows = counted.get("Innodb_rows_inserted", 0.0) + counted.get("Innodb_rows_updated", 0.0)
        if sets:
            found.append(f"{rows / sets:.1%} of {sets:,.0f} sets went to the table")
        elif hits:
            found.append(f"{pages / hits:.2f} pages of InnoDB were requested per hit")
        holds = _gets_allowed(policies, pages, hits, sets) and _sets_allowed(policies["set"], rows, sets)
    evicted = counted.get("memcached_evictions", 0.0)
    found += [f"{evicted:,.0f} items were evicted"] if evicted else []
    growth = growth_bytes(step, samples)
    if growth is not None:
        facts["server_rss_growth_bytes"] = growth
        found += [f"resident memory grew by {growth / 1e6:.1f} MB"] if growth > REPORTED_GROWTH_BYTES else []
        in_window = step.driver.key_values.get("cmd_get", 0.0)
        if in_window:
            facts["server_rss_growth_bytes_per_million_gets"] = round(growth / in_window * 1e6)
    return Evidence(treatment=treatment, holds=holds, text=f"{step.id}: {'; '.join(found) or 'no gets'}", facts=facts)


def _gets_allowed(policies: Mapping[str, str], pages: float, hits: float, sets: float) -> bool:
    """innodb_only reads at least one page per hit; without any policy on the table none is read."""
    if policies["get"] == "innodb_only":
        return pages >= hits * (1 - SLACK) - OF_OTHERS
    if policies["get"] == "cache_only" and policies["set"] == "cache_only":
        return pages <= (hits + sets) * SLACK + OF_OTHERS
    return True


def _sets_allowed(policy: str, rows: float, sets: float) -> bool:
    """As many rows written as sets, or none."""
    if policy in TABLE:
        return rows >= sets * (1 - SLACK) - OF_OTHERS
    return rows <= sets * SLACK + OF_OTHERS


def growth_bytes(step: StepRecord, samples: Sequence[Sample]) -> float | None:
    """Resident memory of the server at the window's last sample less that at its first; None without two samples."""
    begin_ns = step.started_unix_ns + step.warmup_s * 1e9
    end_ns = begin_ns + (step.measure_s + 0.5) * 1e9
    inside = sorted(
        (sample.unix_ns, sample.value)
        for sample in samples
        if sample.metric == "server_rss_bytes" and begin_ns < sample.unix_ns <= end_ns
    )
    return inside[-1][1] - inside[0][1] if len(inside) > 1 else None
