"""What a study's progress shows after each block."""

from __future__ import annotations

from mydyno.model.metrics import phrase_of
from mydyno.results.precision import MOST_PROMISED
from mydyno.results.projection import Precision
from mydyno.wording.numbers import blocks


def precision_words(precision: Precision) -> str:
    """E.g. "expected at 6 blocks: ±7.8 % of queries per second, ±12.1 % of CPU per query"."""
    by_noun: dict[str, float] = {}
    for metric, width in precision.half_widths.items():
        noun = phrase_of(metric, precision.workloads).short_noun
        # CPU per query and its ratio to the load program's have the same noun; the more precise one is shown.
        by_noun[noun] = min(width, by_noun.get(noun, width))
    widths = ", ".join(
        f"{f'±{100 * width:.1f} %' if width <= MOST_PROMISED else 'more than ±20 %'} of {noun}"
        for noun, width in by_noun.items()
    )
    return f"expected at {blocks(precision.blocks)}: {widths}"
