"""Steady state of one step, from its samples: the throughput's series and the server's own state."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.model.definition.experiment import Step
from mydyno.model.stored.records import ChangePoint, WindowSteadiness
from mydyno.stats.steady import StateSeries, judge, mser5
from mydyno.store.samples import Sample

STATES = (
    ("innodb_checkpoint_age_bytes", "innodb_checkpoint_max_age_bytes"),
    ("innodb_dirty_pages_pct", None),
    ("server_rss_bytes", None),
)
"""The server's state and the metric that holds its capacity, where it has one."""


def judge_step(
    samples: Sequence[Sample], started_unix_ns: int, step: Step, margin: float, instance: int = 1
) -> WindowSteadiness:
    """Steadiness of the window, with the MSER-5 cut of the whole step."""
    driver, server = f"driver:{instance}", f"instance:{instance}"
    whole = _series(samples, driver, "tps", started_unix_ns, 0.0, step)
    window = _series(samples, driver, "tps", started_unix_ns, step.warmup_s, step)
    cut = mser5(whole)
    states = []
    for name, capacity in STATES:
        values = _series(samples, server, name, started_unix_ns, step.warmup_s, step)
        if name == "innodb_dirty_pages_pct":
            scale: float | None = 100.0
        else:
            limits = _series(samples, server, capacity, started_unix_ns, step.warmup_s, step) if capacity else []
            scale = limits[-1] if limits else None
        if values:
            states.append(StateSeries(name, values, scale))
    verdict = judge(window, margin, cut, states)
    return WindowSteadiness(
        steadiness=verdict.steadiness.value,
        mser5_cut_s=cut.cut,
        mser5_beyond_half=cut.beyond_half,
        mser5_trustworthy=cut.trustworthy,
        samples=len(whole),
        drift=round(verdict.drift.change, 6),
        change_points=tuple(
            ChangePoint(at_s=point.at, change=round(point.change, 6)) for point in verdict.change_points
        ),
        cycles=verdict.cycles,
        reasons=verdict.reasons,
    )


def _series(
    samples: Sequence[Sample], scope: str, metric: str, started_unix_ns: int, from_s: float, step: Step
) -> list[float]:
    begin = started_unix_ns + from_s * 1e9
    end = started_unix_ns + (step.warmup_s + step.measure_s + 0.5) * 1e9
    return [
        sample.value
        for sample in samples
        if sample.scope == scope and sample.metric == metric and begin < sample.unix_ns <= end
    ]
