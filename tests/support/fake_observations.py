"""Observations of a fake study with a planted effect: glibc twice, jemalloc with the effect, tcmalloc without."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mydyno.model.stored.summary import EffectRecord
from mydyno.verdicts import Family, Metric, Observation, decide_study
from mydyno.wording.verdicts import note_of

QPS = Metric("qps", "1/s", "higher")


def study(
    effect: float = 0.0,
    *,
    blocks: int = 8,
    run_sd: float = 0.007,
    seed: int = 1,
    copies_differ: float = 0.0,
    connections: tuple[int, ...] = (64,),
    metric: Metric = QPS,
    primary: bool = True,
    margin: float = 0.02,
) -> Family:
    """A family of log-normal runs on a host whose level wanders by 5 % from block to block."""
    random = np.random.default_rng(seed)
    steps = {}
    for level in connections:
        observations = []
        for block in range(1, blocks + 1):
            host = 9.0 + random.normal(0.0, 0.05)
            for arm, copy, planted in (
                ("glibc", 1, 0.0),
                ("glibc", 2, copies_differ),
                ("jemalloc", 1, effect),
                ("tcmalloc", 1, 0.0),
            ):
                value = float(np.exp(host + np.log1p(planted) + random.normal(0.0, run_sd)))
                observations.append(Observation(block, arm, value, copy))
        steps[f"oltp_read_only-{level}"] = tuple(observations)
    return Family(metric, "glibc", ("glibc", "jemalloc", "tcmalloc"), steps, margin, primary)


def exact_study(values: Mapping[tuple[str, int], list[float | None]], reason: str = "", margin: float = 0.02) -> Family:
    """A family of one step with exactly these values, block by block; None is a run that a gate made invalid."""
    observations = tuple(
        Observation(block, arm, value, copy, "" if value is not None else reason)
        for (arm, copy), series in values.items()
        for block, value in enumerate(series, 1)
    )
    return Family(Metric("qps"), "glibc", ("glibc", "jemalloc"), {"s": observations}, margin)


def decide(family: Family) -> list[EffectRecord]:
    """The effects of a study that consists of this family alone, at the family's own level."""
    return decide_study([family], round(1.0 - family.level, 12))


def jemalloc(family: Family) -> EffectRecord:
    """The first effect of jemalloc."""
    return next(effect for effect in decide(family) if effect.arm == "jemalloc")


def said(effect: EffectRecord) -> str:
    """What stands beside an effect of these families."""
    return note_of(effect, 0.02)
