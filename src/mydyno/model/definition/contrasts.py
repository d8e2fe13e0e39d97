"""Which arms differ in one setting only: only such a pair shows the effect of that setting."""

from __future__ import annotations

from mydyno.model.definition.experiment import ArmSpec


def only_difference(first: ArmSpec, second: ArmSpec) -> str | None:
    """The one treatment in which two arms differ; None if they differ in none or in several."""
    names = {*first.treatments, *second.treatments}
    differing = [name for name in names if first.treatments.get(name) != second.treatments.get(name)]
    return differing[0] if len(differing) == 1 else None
