"""`search` of a step: what a capacity search looks for. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mydyno.model.definition.quantities import PositiveDuration


class SearchSpec(BaseModel):
    """The objective of a capacity search: the highest load with the metric at or below the limit.

    Every step needs one, and the design must be interleaved. design.slice is 5 s (2 s of connections), or 50 times the
    limit if that is more; it must be at least 20 times the limit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    of: Literal["rate", "connections"] = Field(
        "rate",
        description="what is searched: the rate of an open loop on all connections, or how many connections a closed "
        "loop has, up to `connections`",
    )
    metric: Literal[
        "latency_mean_us", "latency_p50_us", "latency_p90_us", "latency_p95_us", "latency_p99_us", "latency_p999_us"
    ] = Field(description="the latency that is limited; of a rate, counted from when each was due")
    limit: PositiveDuration = Field(description='its highest value, e.g. "20ms"')

    @property
    def limit_us(self) -> float:
        """The limit in the metric's unit."""
        return 1e6 * self.limit

    @property
    def words(self) -> str:
        """E.g. "p99 ≤ 20 ms"."""
        name = self.metric.removeprefix("latency_").removesuffix("_us")
        return f"{'mean latency' if name == 'mean' else name.replace('p999', 'p99.9')} ≤ {1e3 * self.limit:g} ms"
