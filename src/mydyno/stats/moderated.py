"""Variances of many contrasts that were each measured few times, moderated by one another.

G. K. Smyth, Linear models and empirical Bayes methods for assessing differential expression in microarray experiments,
Statistical Applications in Genetics and Molecular Biology 3 (2004): the true variances are taken as drawn from a scaled
inverse chi-square distribution, whose degrees of freedom and scale are estimated from all of them. A contrast then has
a t statistic with the degrees of freedom of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

Array = NDArray[np.float64]
LEAST_VARIANCE = 1e-16
"""Smaller is rounding: no logarithm is taken of 0."""
FEWEST = 3
"""Fewer variances tell nothing of their distribution."""


@dataclass(frozen=True)
class Moderated:
    """Variances after moderation, and the degrees of freedom of each."""

    variances: Array
    df: float


def moderated(variances: Array, df: int) -> Moderated:
    """Moderate sample variances of `df` degrees of freedom each.

    At most all of their degrees of freedom together are used: so many at most are in the data.
    """
    if len(variances) < FEWEST:
        return Moderated(variances, df)
    logs = np.log(np.maximum(variances, LEAST_VARIANCE))
    shifted = logs - digamma(df / 2) + log(df / 2)
    centre = float(np.mean(shifted))
    excess = float(np.var(shifted, ddof=1)) - float(polygamma(1, df / 2))
    prior_df = _trigamma_inverse(excess) * 2 if excess > 0 else inf
    all_df = float(df * len(variances))
    if prior_df == inf:
        return Moderated(np.full(len(variances), exp(centre)), all_df)
    scale = exp(centre + float(digamma(prior_df / 2)) - log(prior_df / 2))
    found = (prior_df * scale + df * variances) / (prior_df + df)
    return Moderated(found, min(prior_df + df, all_df))


def _trigamma_inverse(value: float) -> float:
    """x with trigamma(x) = value, which falls from infinity to 0."""
    if value < 1e-6:
        return 1 / value
    return float(brentq(lambda x: float(polygamma(1, x)) - value, 1e-8, 2e6))
