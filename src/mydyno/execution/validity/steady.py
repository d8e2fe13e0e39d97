"""The mean of a window is biased if the server still warms up. Design blocks.

Not steady: MSER-5 would remove more than half of the window; or its drift (slope × length of the log, with an interval
widened for autocorrelation) is not below half the margin; or a change of level exceeds the margin and four standard
errors; or checkpoint age, dirty pages or resident memory moved by more than their margin without three whole cycles.
With "strict" an arm's stalls are excluded, too.
"""

from __future__ import annotations

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Fails where the window is not steady and validity.steady is strict. An undecided window is used and reported."""
    if facts.steadiness != "not steady" or facts.bounds.steady != "strict":
        return None
    return Reason(gate="steady", text="; ".join(facts.steady_reasons))
