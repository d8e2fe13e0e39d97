"""Which metrics are a server's memory: compared where every arm has served as many queries since its start."""

from __future__ import annotations

from mydyno.model.definition.experiment import Experiment
from mydyno.model.metrics import GROWTH

MEMORY = ("server_rss_bytes", "server_rss_peak_bytes", "server_vsize_bytes")
"""Compared at equal load history, not at equal time."""
EARLY = "server_rss_early_bytes"
QUERIES = "memory_queries"


def is_memory(metric: str) -> bool:
    """Whether the metric is memory of the servers."""
    return metric in (*MEMORY, EARLY, GROWTH) or metric.startswith(("server_rss_", "server_pss_"))


def compares_memory(experiment: Experiment) -> bool:
    """Whether memory is a metric of the question."""
    return any(map(is_memory, experiment.verdict.primary))
