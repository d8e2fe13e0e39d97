"""Effect verdicts: five words; `decide_study` is the way in."""

from mydyno.verdicts.decide import decide_study, decided, noise_floors
from mydyno.verdicts.effect import Family, Metric, Observation, Verdict

__all__ = [
    "Family",
    "Metric",
    "Observation",
    "Verdict",
    "decide_study",
    "decided",
    "noise_floors",
]
