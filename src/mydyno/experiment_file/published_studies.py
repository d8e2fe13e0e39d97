"""The files of experiments/published/: figures, parts and conclusions of each published study. No statistics."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mydyno.errors import BugError
from mydyno.model.definition.experiment import Experiment, Frozen

PRINTED_TO = 0.5
"""Effects are printed in whole percent: half of the last digit."""


class EffectFigure(Frozen):
    """Effects as a study prints them: differences in percent of the control."""

    table: str
    workload: str
    control: str
    arm: str
    unit: str
    connections: int | None = None
    """None: the largest over the study's sweep."""
    rounding: float = PRINTED_TO
    qps: float | None = None
    tps: float | None = None
    cpu_user_pct: float | None = None
    server_cpu_us_per_query: float | None = None
    server_rss_bytes: float | None = None
    server_vsize_bytes: float | None = None


class TableFigure(Frozen):
    """Absolute figures of all arms; only their ratios to the control are used."""

    table: str
    workload: str
    metric: str
    unit: str
    connections: tuple[int, ...]
    control: str
    instances: int = 1
    link_full_from: int | None = None
    """Connections from which the arm's link was full there: what follows is stated only where this study has one."""
    inverse: bool = False
    """Seconds for a fixed amount of work: the rate's ratio is the inverse."""
    values: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """One for each number of connections."""
    each: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """One for each instance: their mean counts."""

    @model_validator(mode="after")
    def _rows_are_whole(self) -> TableFigure:
        if any(len(row) != len(self.connections) for row in self.values.values()):
            raise ValueError(f"{self.table}: every row of values needs {len(self.connections)} figures")
        if any(len(row) != self.instances for row in self.each.values()):
            raise ValueError(f"{self.table}: every row of each needs {self.instances} figures")
        if self.control not in {**self.values, **self.each}:
            raise ValueError(f"{self.table}: the control {self.control} has no figures")
        return self

    def rows(self) -> dict[str, tuple[float, ...]]:
        """{arm: one figure for each number of connections}."""
        return {**self.values, **{arm: (sum(row) / len(row),) for arm, row in self.each.items()}}


class FullLinkShare(Frozen):
    """A full link carries this share of its nominal speed."""

    rule: Literal["full_link_share"]
    share: float
    tolerance: float


class FlatAtFullLink(Frozen):
    """Once the link is full, throughput grows by less than the tolerance with more connections."""

    rule: Literal["flat_at_full_link"]
    tolerance: float


class VerdictOfPairs(Frozen):
    """Arms that differ in the part's treatment alone have this verdict, at loads chosen by their links."""

    rule: Literal["verdict"]
    where: Literal["control_at_full_link", "both_at_full_link", "away_from_full_link"]
    verdict: Literal["higher", "lower", "equivalent"]


class RatioAtConnections(Frozen):
    """Arms that differ in the part's treatment alone have this ratio at one number of connections."""

    rule: Literal["ratio"]
    connections: int
    ratio: float
    rounding: float


class StopsGrowing(Frozen):
    """From a number of connections on, throughput stops growing with the treatment although it grows without."""

    rule: Literal["stops_growing"]
    from_connections: int
    at_most: float
    """Growth up to this is none."""
    control_grows: float
    """The control must grow by this much, or the conclusion cannot be tested."""


class Conclusion(Frozen):
    """One conclusion, and the rule by which another study's results agree with it."""

    claim: str
    test: Annotated[
        FullLinkShare | FlatAtFullLink | VerdictOfPairs | RatioAtConnections | StopsGrowing, Field(discriminator="rule")
    ]


class StudyPart(Frozen):
    """One part of a published study: the treatment that it is about, its section of the report, its conclusions."""

    name: str
    """The study's own name for it, e.g. N2."""
    treatment: str
    conclusions: tuple[Conclusion, ...]


class PublishedStudy(Frozen):
    """One file of experiments/published/."""

    study: str
    title: str
    host: str
    arms: dict[str, dict[str, Any]]
    """Arm → its treatments, as an experiment says them."""
    effects: tuple[EffectFigure, ...] = ()
    tables: tuple[TableFigure, ...] = ()
    conclusions_need: str | None = None
    """The conclusions are only tested where an arm has this treatment."""
    parts: tuple[StudyPart, ...] = ()

    def concludes_on(self, experiment: Experiment) -> bool:
        """Whether the experiment is of the study's parts; its appendices may have experiments of their own."""
        needed = self.conclusions_need
        return needed is None or any(needed in arm.treatments for arm in experiment.arms)


@cache
def published_studies() -> dict[str, PublishedStudy]:
    """{"study-1": …}. Raises BugError for a damaged file: they are part of the program."""
    folder = Path(str(resources.files("mydyno") / "experiments" / "published"))
    studies = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            study = PublishedStudy.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise BugError(f"{path.name}: {error}") from error
        studies[study.study] = study
    return studies
