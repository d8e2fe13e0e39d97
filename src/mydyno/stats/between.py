"""The difference of two estimates from different sessions, which share no block.

Blocks of different sessions are never paired: each session's estimate keeps its own error, and the errors add. The
variance of the difference is the sum of both variances, the degrees of freedom are Welch's and Satterthwaite's
(Biometrics Bulletin 2 (1946); Biometrika 34 (1947)), rounded down. As each estimate is the log of a ratio to its own
control, the difference is that of an indirect comparison (Bucher and others, Journal of Clinical Epidemiology 50
(1997)): the sessions' common speed cancels in each ratio, the noise of both remains.

What differs from session to session beyond the noise of blocks is not in this error, as two sessions cannot show it.
Where more sessions show it, `with_sessions` adds it.
"""

from __future__ import annotations

from math import sqrt

from mydyno.stats.contrast import Estimate


def difference(first: Estimate, second: Estimate) -> Estimate:
    """`second` less `first`, of log ratios; `n` is the smaller number of blocks, `error` is None if either's is."""
    if first.mean is None or second.mean is None:
        return Estimate(min(first.n, second.n), None, None, 0, None, False)
    n, mean = min(first.n, second.n), second.mean - first.mean
    if first.error is None or second.error is None:
        return Estimate(n, mean, None, 0, None, False)
    error = sqrt(first.error**2 + second.error**2)
    return Estimate(n, mean, error, _freedom(first, second), None, False)


def with_sessions(found: Estimate, sd: float, sessions: int) -> Estimate:
    """The difference with the scatter of both sessions in its error; `sd`, of logs, is known from so many sessions."""
    if found.error is None or sd <= 0.0:
        return found
    own, between = found.error**2, 2.0 * sd**2
    terms = own**2 / max(1, found.freedom) + between**2 / (sessions - 1)
    freedom = max(1, int((own + between) ** 2 / terms + 1e-9))
    return Estimate(found.n, found.mean, sqrt(own + between), freedom, None, False)


def _freedom(first: Estimate, second: Estimate) -> int:
    """Welch and Satterthwaite's, at least that of the session with fewer; without any spread the smaller of both."""
    a, b = (first.error or 0.0) ** 2, (second.error or 0.0) ** 2
    if a + b == 0.0 or first.freedom < 1 or second.freedom < 1:
        return min(first.freedom, second.freedom)
    found = (a + b) ** 2 / (a**2 / first.freedom + b**2 / second.freedom)
    return max(1, int(found + 1e-9))
