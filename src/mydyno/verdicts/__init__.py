"""Effect verdicts: five words, one rule a file, tried in a fixed order; `decide_study` is the way in."""

from mydyno.verdicts.decide import decide, decide_study, decided, noise_floors
from mydyno.verdicts.effect import Family, Metric, Observation, Verdict

__all__ = [
    "Family",
    "Metric",
    "Observation",
    "Verdict",
    "decide",
    "decide_study",
    "decided",
    "noise_floors",
]
