"""[verdict] of an experiment: the metrics of the question, and the criteria of a difference. Frozen; no I/O."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mydyno.model.definition.looks import TOTAL
from mydyno.model.definition.quantities import ErrorRate, Share
from mydyno.model.phrases import common_name


def as_list(value: object) -> object:
    """A list as it is; one value as a list of it."""
    return value if isinstance(value, list | tuple) else [value]


class CompareSpec(BaseModel):
    """Further contrasts that get verdicts, e.g. instance 1 alone against instance 1 with three neighbours."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    metrics: Annotated[tuple[str, ...], BeforeValidator(as_list)] = Field(
        min_length=1, description="metrics, e.g. tpmc_instance_1"
    )
    arms: Annotated[tuple[str, ...], BeforeValidator(as_list)] = Field(min_length=1, description="the arms compared")
    control: str = Field(description="the arm that they are compared with")


def _as_metrics(value: object) -> object:
    """One or several names of metrics, as people say them ("rss") or in full; each once."""
    listed = as_list(value)
    assert isinstance(listed, list | tuple)
    if not all(isinstance(name, str) for name in listed):
        return listed
    return tuple(dict.fromkeys(common_name(name) for name in listed))


class VerdictSpec(BaseModel):
    """What verdicts are given on, declared before the first run."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    primary: Annotated[tuple[str, ...], BeforeValidator(_as_metrics)] = Field(
        ("qps",),
        min_length=1,
        max_length=4,
        description="the metrics of the question, the most important one first; one may stand without a list. "
        "Verdicts on all of them are tested together; each has its sentence in the answer",
    )
    margin: Share = Field(0.02, description="differences inside this margin count as equivalent")
    latency_margin: Share = Field(0.05, description="the margin for latency percentiles")
    cost: bool = Field(
        True, description="also give verdicts on the server's CPU time per query, if it is measured and no primary "
        "metric is the server's CPU time",
    )  # fmt: skip
    compare: tuple[CompareSpec, ...] = Field((), description="further contrasts with verdicts: metrics, arms, control")

    error_rate: ErrorRate = Field(
        TOTAL, description="the largest chance of a false difference over all verdicts and looks of the study; "
        "intervals of these verdicts, and the tests of [thresholds], are at the confidence that goes with it",
    )  # fmt: skip

    @property
    def leading(self) -> str:
        """The first metric of the question."""
        return self.primary[0]

    def margin_of(self, metric: str) -> float:
        """The margin declared for a metric."""
        return self.latency_margin if metric.startswith("latency_") else self.margin
