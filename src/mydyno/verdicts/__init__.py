"""Effect verdicts: five words; `decide_study` is the way in."""

from mydyno.verdicts.case import Family, Metric, Observation, Verdict
from mydyno.verdicts.decide import decide_study, decided, noise_floors

__all__ = [
    "Family",
    "Metric",
    "Observation",
    "Verdict",
    "decide_study",
    "decided",
    "noise_floors",
]
