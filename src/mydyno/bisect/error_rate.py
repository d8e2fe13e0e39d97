"""How the error rate of a bisection is divided over its studies, so that all of them together keep to it (Bonferroni).

The path is right if every decision on it is. The studies that are planned, one of the ends and one for each halving,
have an equal share each, and one more share is for studies beyond those (commits that could not be decided): a half of
it, a sixth, a twelfth, …, which sum to the whole. The share of a study depends on its number alone, never on a result,
so the sum bounds the chance of a wrong decision whatever path the results lead to.
"""

from __future__ import annotations

import math

LEAST_RATE = 0.0001
"""Below this no study is made: labels are not permuted often enough to decide anything (stats/permutation.py)."""


def comparisons_needed(commits: int) -> int:
    """The comparisons of the ends and of the commits in between, if none is skipped."""
    return 1 + (math.ceil(math.log2(commits)) if commits > 1 else 0)


def rate_of_study(error_rate: float, commits: int, made: int) -> float:
    """The error rate of the next study, after so many were made, of a bisection over so many commits."""
    planned = comparisons_needed(commits)
    share = error_rate / (planned + 1)
    beyond = made - planned + 1
    return share if beyond <= 0 else share / (beyond * (beyond + 1))
