"""What a study does at this moment: the fields of the `second` lines of live.jsonl, kept up to date by its events."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from mydyno import clock
from mydyno.drivers.base import Progress
from mydyno.execution.environments.environment import Sampler
from mydyno.execution.interleaved.block import SliceKind
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.stored.live import LiveSecond, LiveState
from mydyno.model.stored.records import SliceRecord

SERVER_METRICS = (
    "queries_per_s",
    "threads_running",
    "innodb_buffer_pool_hit_pct",
    "innodb_dirty_pages_pct",
    "innodb_checkpoint_age_bytes",
    "innodb_checkpoint_age_pct",
    "innodb_redo_written_bytes_per_s",
    "innodb_data_fsyncs_per_s",
    "innodb_row_lock_current_waits",
    "innodb_history_list_length",
    "server_rss_bytes",
)
"""Metrics of a server, from dynoprobe, that a line carries."""
LATENCIES = ("p50", "p95", "p99")


class LiveNow:
    """The present state. Events come from the study, second() from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = LiveSecond(unix_ns=0, state="preparing")
        self._sampler: Sampler | None = None
        self._instances: frozenset[int] | None = frozenset()
        """Servers under load; None: all that are sampled."""

    def set(self, **changes: object) -> None:
        """Replace fields."""
        with self._lock:
            self._now = self._now.model_copy(update=changes)

    def rest(self, state: LiveState, **changes: object) -> None:
        """A state without load."""
        self.set(state=state, step=None, cycle=None, qps=None, tps=None, latency_us={}, errors_per_s=None, **changes)

    def sampling(self, sampler: Sampler | None) -> None:
        """From here on the servers are sampled, or (None) not any more: the load is over."""
        self._sampler = sampler
        self._instances = None
        if sampler is None:
            self.rest("analysing")

    def load(self, step: Step, progress: Progress) -> None:
        """Design blocks: the last second's rates."""
        self.set(
            state="warm-up" if progress.t_s <= step.warmup_s else "step",
            step=step.id,
            qps=round(progress.qps, 1),
            tps=round(progress.tps, 1),
            latency_us={name: round(value) for name, value in progress.latency_us.items()},
            errors_per_s=progress.errors_per_s,
        )

    def slice_begins(
        self, kind: SliceKind, step: Step, cycle: int, planned: PlannedRun, instances: Sequence[int]
    ) -> None:
        """The servers with these numbers are loaded from here on."""
        self._instances = frozenset(instances)
        self.set(state=kind, step=step.id, cycle=cycle or None, arm=planned.arm, copy_number=planned.copy_number)

    def slice_ended(self, record: SliceRecord) -> None:
        """The slice's rates are those of the next seconds, until the next slice has ended."""
        length_s = record.length_s or 1.0
        self.set(
            qps=round(record.queries / length_s, 1),
            tps=round(record.transactions / length_s, 1),
            latency_us={name: round(record.latency_us[name]) for name in LATENCIES if name in record.latency_us},
            errors_per_s=round(record.errors / length_s, 3),
        )

    def second(self, left_s: float | None = None) -> LiveSecond:
        """The state as it is now, with the newest samples."""
        changes: dict[str, object] = {"unix_ns": clock.unix_ns(), "left_s": left_s}
        sampler = self._sampler
        if sampler is not None:
            sample = sampler.newest()
            host = sample.get("host", {})
            if "cpu_user_pct" in host and "cpu_system_pct" in host:
                changes["cpu_busy_pct"] = round(host["cpu_user_pct"] + host["cpu_system_pct"], 2)
            changes["cpu_steal_pct"] = host.get("cpu_steal_pct")
            changes["server"] = _of_servers(sample, self._instances)
        return self._now.model_copy(update=changes)


def _of_servers(sample: Mapping[str, Mapping[str, float]], instances: frozenset[int] | None) -> dict[str, float]:
    """SERVER_METRICS of the servers under load together; a metric that one of them lacks is absent."""
    scopes = [
        metrics
        for scope, metrics in sample.items()
        if scope.startswith("instance:") and (instances is None or int(scope.partition(":")[2]) in instances)
    ]
    found = {}
    for name in SERVER_METRICS if scopes else ():
        values = [metrics[name] for metrics in scopes if name in metrics]
        if len(values) == len(scopes):
            found[name] = round(sum(values) / (len(values) if name.endswith("_pct") else 1), 3)
    return found
