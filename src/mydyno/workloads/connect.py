"""connect: one transaction is a new connection with its TLS handshake and its login, and its end.

tps are connections per second, so the cost of a handshake is a ratio of rates and a difference of CPU per transaction.
Nothing is read or written; sysbench has no such workload. The server must have counted as many connections as the
driver, dynoload, reports.
"""

from __future__ import annotations

from pydantic import Field

from mydyno.model.definition.experiment import Frozen

NAME = "connect"
DESCRIPTION = "connect, TLS handshake, log in, disconnect: connections per second"


class ConnectOptions(Frozen):
    """Options of the workload connect."""

    rate: int = Field(0, ge=0, description="planned connections per second; 0: as many as possible")
