"""The gate as Bencher Metric Format JSON, for `bencher run --adapter json --file FILE`.

A benchmark is an experiment's arm at a step, in comparison with its control. For each metric it has two measures:
METRIC, the arm's own value, the geometric mean of its blocks, which depends on the host; and METRIC-ratio, the arm's
value relative to its control's with the one-sided bounds of the gate, which does not. Comparisons without a number are
left out: the format has none without.
"""

from __future__ import annotations

import json

from mydyno.wording.gate import GateResult

Measures = dict[str, dict[str, float]]


def bencher(result: GateResult) -> str:
    """The document. Empty where nothing may be examined."""
    found: dict[str, Measures] = {}
    for one in result.comparisons:
        if one.ratio is None or one.arm_value is None:
            continue
        measures = found.setdefault(f"{result.experiment}: {one.arm} against {one.control}, {one.step}", {})
        measures[one.metric.name] = {"value": one.arm_value}
        ratio = {"value": one.ratio}
        if one.low is not None and one.high is not None:
            ratio |= {"lower_value": one.low, "upper_value": one.high}
        measures[f"{one.metric.name}-ratio"] = ratio
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
