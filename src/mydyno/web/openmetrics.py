"""The current figures of studies that run, as OpenMetrics text: for a textfile collector, and at /metrics for
Prometheus.

/metrics is there with `serve --metrics` only. Every name begins with mydyno_. Figures of a load carry the labels study,
arm and step, and of a study over host groups also group. What is unknown is absent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mydyno.errors import HostError
from mydyno.files.atomic import new_file
from mydyno.model.stored.live import LiveEnded, LiveOpened, LivePrecision, LiveRecord, LiveSecond
from mydyno.store.logs import LIVE_FILE, read_last_lines
from mydyno.web.access import Access
from mydyno.web.index import StudyIndex

CONTENT_TYPE = CONTENT_TYPE_LATEST
LEAST_INTERVAL_S = 0.5
LOAD = {
    "qps": ("mydyno_queries_per_second", "Queries per second of the load."),
    "tps": ("mydyno_transactions_per_second", "Transactions per second of the load."),
    "errors_per_s": ("mydyno_errors_per_second", "Errors per second of the load."),
}
STUDY = {
    "block": ("mydyno_block", "Number of the block."),
    "blocks": ("mydyno_blocks", "Number of blocks that the study aims for."),
    "made": ("mydyno_blocks_finished", "Number of blocks that host groups have finished."),
    "left_s": ("mydyno_left_seconds", "Expected time to the end of the study."),
    "cpu_busy_pct": ("mydyno_host_cpu_busy_percent", "CPU time in user and kernel mode, of all CPUs."),
    "cpu_steal_pct": ("mydyno_host_cpu_steal_percent", "CPU time taken by the hypervisor, of all CPUs."),
}
LATENCY = ("mydyno_latency_seconds", "Response time of transactions; the label quantile is p50, p95 or p99.")
SERVER = ("mydyno_server_", "Metric of dynoprobe of the servers under load.")
PRECISION = ("mydyno_precision_half_width_ratio", "Half-width of the interval to expect, as a fraction, by metric.")
RUNNING = ("mydyno_study_running", "1 while the study runs, then 0.")
STATE = ("mydyno_study_state", "Always 1; the label state says what the study does.")


@dataclass
class Figures:
    """The newest records of one study. Mutable: take() is called for each record."""

    study: str = ""
    seconds: dict[str, LiveSecond] = field(default_factory=dict)
    """Host group (empty: the study itself) → its newest."""
    precision: LivePrecision | None = None
    running: bool = False

    def take(self, record: LiveRecord) -> None:
        """Keep what replaces earlier figures."""
        if isinstance(record, LiveOpened):
            self.study, self.running = record.study, True
            self.seconds.clear()
        elif isinstance(record, LiveSecond):
            self.seconds[record.group] = record
        elif isinstance(record, LivePrecision):
            self.precision = record
        elif isinstance(record, LiveEnded):
            self.running = False


class _Collector(Collector):
    def __init__(self, figures: Iterable[Figures]) -> None:
        self._figures = tuple(figures)

    def collect(self) -> Iterator[Metric]:
        """One family for each name, with a sample for each study."""
        families: dict[str, GaugeMetricFamily] = {}
        for name, words, labels, value in (one for figures in self._figures for one in _samples(figures)):
            family = families.setdefault(name, GaugeMetricFamily(name, words, labels=list(labels)))
            family.add_metric(list(labels.values()), value)
        yield from families.values()


Sample = tuple[str, str, dict[str, str], float]
"""(name, help, labels, value)."""


def _samples(figures: Figures) -> Iterator[Sample]:
    study = {"study": figures.study}
    yield *RUNNING, study, float(figures.running)
    if figures.precision is not None:
        for metric, width in figures.precision.half_widths.items():
            yield *PRECISION, {**study, "metric": metric}, width
    if figures.running:
        for second in figures.seconds.values():
            yield from _of_second(second, study)


def _of_second(now: LiveSecond, study: dict[str, str]) -> Iterator[Sample]:
    place = {**study, "group": now.group}
    yield *STATE, {**place, "state": now.state}, 1.0
    for name, described in STUDY.items():
        value = getattr(now, name)
        if value is not None:
            yield *described, place, float(value)
    labels = {**place, "arm": now.arm or "", "step": now.step or ""}
    for name, described in LOAD.items():
        value = getattr(now, name)
        if value is not None:
            yield *described, labels, float(value)
    for name, value_us in now.latency_us.items():
        yield *LATENCY, {**labels, "quantile": name}, value_us / 1e6
    for name, value in now.server.items():
        yield f"{SERVER[0]}{name.removeprefix('server_')}", f"{SERVER[1]} {name}", labels, value


def exposition(figures: Iterable[Figures]) -> bytes:
    """The text. Gauges alone, so that it is both OpenMetrics and what node_exporter's textfile collector reads."""
    registry = CollectorRegistry()
    registry.register(_Collector(figures))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


class MetricsFile:
    """`run --openmetrics FILE`: the file is replaced as a whole at each second of the study."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._figures = Figures()
        self._written_s = 0.0

    def __call__(self, record: LiveRecord) -> None:
        """Take a record; a disk that is full must not end the study."""
        self._figures.take(record)
        due = time.monotonic() - self._written_s >= LEAST_INTERVAL_S
        if not due and not isinstance(record, LiveEnded):
            return
        self._written_s = time.monotonic()
        aside = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        try:
            with os.fdopen(new_file(aside, 0o666), "wb") as file:
                file.write(exposition([self._figures]))
            aside.replace(self._path)
        except (OSError, HostError):
            aside.unlink(missing_ok=True)


def show_metrics(request: Request) -> Response:
    """Figures of studies that run; those that have ended are absent."""
    access: Access = request.app.state.access
    if not access.open_metrics:
        raise HTTPException(404, "This server was started without --metrics.")
    index: StudyIndex = request.app.state.index
    running = [index.studies / row.id for row in index.rows() if row.state == "running"]
    return Response(exposition(map(_figures, running)), media_type=CONTENT_TYPE)


def _figures(study: Path) -> Figures:
    found = Figures(study.name, running=True)
    precision = None
    for line in reversed(read_last_lines(study / LIVE_FILE, 256 * 1024)):
        record = line.record
        if isinstance(record, LiveSecond):
            found.seconds.setdefault(record.group, record)
        elif isinstance(record, LivePrecision):
            precision = precision or record
    found.precision = precision
    return found


ROUTES = [Route("/metrics", show_metrics)]
