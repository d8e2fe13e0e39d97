"""Estimates with their standard errors from what a summary stores."""

from __future__ import annotations

from collections.abc import Mapping
from math import log, sqrt

import numpy as np

from mydyno.model.stored.summary import EffectRecord
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import has_no_spread, t_quantile

EXPLORATORY_ALPHA = 0.05
"""The error rate of the unadjusted intervals of metrics without verdicts."""


def estimate_of(effect: EffectRecord, alpha: float) -> Estimate:
    """The log ratio with its error, from the unadjusted interval; `alpha` is the summary's error rate.

    A summary without that interval has the error of its blocks' log ratios.
    """
    if effect.ratio is None or effect.ratio <= 0.0:
        return Estimate(0, None, None, 0, None, False)
    details, mean = effect.details, log(effect.ratio)
    low, high = details.single_low, details.single_high
    if low and high and details.freedom >= 1:
        level = alpha if effect.verdict else EXPLORATORY_ALPHA
        error = log(high / low) / 2.0 / t_quantile(1.0 - level / 2.0, details.freedom)
        return Estimate(effect.n, mean, error, details.freedom, None, details.method == "pooled")
    own = mean_of(details.log_ratios or {})
    return Estimate(effect.n, mean, own.error, own.freedom, own.block_sd, False)


def mean_of(values: Mapping[int, float]) -> Estimate:
    """The mean of {block: value} with its error over blocks; without an error below two blocks."""
    d = np.array(list(values.values()))
    if d.size < 2:
        return Estimate(d.size, float(d[0]) if d.size else None, None, 0, None, False)
    sd = 0.0 if has_no_spread(d) else float(d.std(ddof=1))
    return Estimate(d.size, float(d.mean()), sd / sqrt(d.size), d.size - 1, sd, False)


def mean_log(values: Mapping[int, tuple[float, ...]]) -> Estimate:
    """The mean over blocks of the logs of {block: values of its copies}."""
    return mean_of({block: float(np.mean(np.log(of))) for block, of in values.items()})
