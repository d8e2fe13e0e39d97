"""What a study's progress shows after each block."""

from __future__ import annotations

from mydyno.evaluation.projection import Precision
from mydyno.model.metrics import phrase_of
from mydyno.results.precision import MOST_PROMISED
from mydyno.wording.numbers import blocks


def precision_words(precision: Precision) -> str:
    """E.g. "expected at 6 blocks: ±7.8 % of queries per second, ±12.1 % of CPU per query"."""
    widths = ", ".join(
        f"{half_width_words(width)} of {phrase_of(metric, precision.workloads).short_noun}"
        for metric, width in precision.half_widths.items()
    )
    return f"expected at {blocks(precision.blocks)}: {widths}"


def half_width_words(width: float) -> str:
    """E.g. "±7.8 %"."""
    return f"±{100 * width:.1f} %" if width <= MOST_PROMISED else "more than ±20 %"
