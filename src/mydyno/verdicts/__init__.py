"""Effect verdicts: five words, one rule a file, tried in a fixed order; `decide` is the way in."""

from mydyno.verdicts.decide import decide, noise_floors
from mydyno.verdicts.effect import Effect, Family, Metric, Observation, Scope, Verdict

__all__ = ["Effect", "Family", "Metric", "Observation", "Scope", "Verdict", "decide", "noise_floors"]
