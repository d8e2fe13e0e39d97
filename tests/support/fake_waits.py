"""Made-up waits of a server: usual events with their rates and durations, counted with noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mydyno.model.stored.counted import (
    ROW_LOCKS,
    EventTotal,
    LockTotal,
    MetricTotal,
    SessionKind,
    SessionTotal,
    WaitKind,
    WaitTotals,
)

Event = tuple[WaitKind, str]
USUAL: Mapping[Event, tuple[float, float]] = {
    ("wait", "wait/io/socket/sql/client_connection"): (20.0, 40.0),
    ("wait", ROW_LOCKS): (0.02, 4000.0),
    ("wait", "wait/io/file/innodb/innodb_data_file"): (0.05, 900.0),
    ("wait", "wait/io/file/sql/binlog"): (1.0, 120.0),
    ("wait", "wait/synch/mutex/innodb/buf_pool_mutex"): (3.0, 8.0),
    ("wait", "wait/synch/mutex/innodb/trx_sys_mutex"): (5.0, 5.0),
    ("wait", "wait/synch/mutex/sql/THD::LOCK_thd_data"): (100.0, 0.05),
    ("wait", "wait/synch/rwlock/innodb/lock_latch"): (10.0, 3.0),
    ("wait", "wait/synch/sxlock/innodb/index_tree_rw_lock"): (20.0, 1.0),
    ("wait", "wait/synch/cond/sql/MDL_context::COND_wait_status"): (0.001, 20_000.0),
    ("wait", "wait/lock/table/sql/handler"): (18.0, 0.3),
    ("stage", "stage/sql/Commit"): (20.0, 70.0),
    ("stage", "stage/sql/Updating"): (3.0, 190.0),
    ("stage", "stage/sql/Statistics"): (14.0, 18.0),
    ("stage", "stage/sql/Opening tables"): (18.0, 14.0),
    ("stage", "stage/sql/Sending data"): (14.0, 14.0),
    ("statement", "SELECT c FROM sbtest1 WHERE id=?"): (10.0, 60.0),
    ("statement", "COMMIT"): (1.0, 1500.0),
}
"""Times per transaction and mean duration in µs."""
SAMPLES = 40
SESSIONS: Mapping[tuple[SessionKind, str], float] = {
    ("active", ""): 5.0,
    ("state", "Commit"): 1.5,
    ("state", "Updating"): 0.5,
    ("state", "Statistics"): 0.3,
    ("wait", ""): 4.0,
    ("wait", "wait/io/file/sql/binlog"): 0.4,
    ("wait", "wait/synch/mutex/innodb/buf_pool_mutex"): 0.2,
    ("wait", "wait/synch/mutex/innodb/trx_sys_mutex"): 0.2,
}
"""Mean numbers of sessions."""
METRICS: Mapping[str, float] = {"buffer_pool_reads": 0.1, "log_writes": 1.2, "dml_reads": 400.0, "os_log_fsyncs": 0.9}
"""Per transaction."""
HOT = "wait/synch/mutex/innodb/trx_sys_mutex"


def counted(
    random: np.random.Generator,
    step: str,
    transactions: int = 600,
    more: Mapping[Event, tuple[float, float]] | None = None,
    spread: float = 0.15,
    sessions: Mapping[tuple[SessionKind, str], float] | None = None,
    metrics: Mapping[str, float] | None = None,
) -> WaitTotals:
    """What one run counts. `more`: events of this arm in place of the usual ones, or besides them; `sessions` and
    `metrics` likewise.

    Numbers of events are Poisson, durations exponential; a start of a server changes each amount by `spread`, and all
    together by the host's speed.
    """
    speed = np.exp(random.normal(0, 0.1))
    found: dict[WaitKind, list[EventTotal]] = {"wait": [], "stage": [], "statement": []}
    for (kind, name), (rate, mean_us) in {**USUAL, **(more or {})}.items():
        count = int(random.poisson(rate * transactions))
        if count:
            time_us = random.gamma(count, mean_us) * speed * np.exp(random.normal(0, spread))
            found[kind].append(EventTotal(name=name, count=count, time_us=round(float(time_us), 3)))
    share = {key: mean * np.exp(random.normal(0, spread)) for key, mean in {**SESSIONS, **(sessions or {})}.items()}
    sampled = {key: int(random.poisson(mean * SAMPLES)) for key, mean in share.items()}
    counters = {
        name: int(random.poisson(rate * transactions * np.exp(random.normal(0, spread))))
        for name, rate in {**METRICS, **(metrics or {})}.items()
    }
    return WaitTotals(
        step=step,
        slices=1,
        transactions=transactions,
        loaded_s=transactions * 8e-3 * speed,
        waits=tuple(found["wait"]),
        stages=tuple(found["stage"]),
        statements=tuple(found["statement"]),
        locks=(LockTotal(name=HOT, instances=16, time_us=1000.0, hottest_us=900.0),),
        samples=SAMPLES,
        sessions=tuple(SessionTotal(kind=kind, name=name, count=n) for (kind, name), n in sampled.items() if n),
        metrics=tuple(MetricTotal(name=name, count=n) for name, n in counters.items() if n),
    )
