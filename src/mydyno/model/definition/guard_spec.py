"""[guard] of an experiment: what a server's own users are promised while it is measured. Frozen; no I/O."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from mydyno.model.definition.quantities import PositiveDuration


class GuardSpec(BaseModel):
    """With server.dsn: limits at which a slice is ended at once, its connections closed, and repeated when the server
    is calm again. After three such ends the arm has failed at that step.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    threads_running: int | None = Field(
        None, ge=1, description="most threads that execute statements (Threads_running), those of the load included"
    )
    p99: PositiveDuration | None = Field(
        None, description='longest 99th percentile of `statement` over the last ten seconds, e.g. "50ms"'
    )
    statement: str = Field(
        "SELECT 1", min_length=1, description="what mydyno executes forty times a second as a user of the server would"
    )
    replica_lag: PositiveDuration | None = Field(
        None, description="with a server that is a replica: the most that it may be behind its source"
    )
