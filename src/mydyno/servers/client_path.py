"""How the load connects to a private server other than by its Unix socket; set by treatments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mydyno.servers.sql import Address, ClientTls


@dataclass(frozen=True)
class ClientPath:
    """A TCP path with its protocol options."""

    host: str
    """The address that the server listens on."""
    port: int
    client_host: str
    """The client address that the server sees; the load's account is created for it."""
    namespace: Path | None = None
    """The network namespace that the load starts from; None: mydyno's own."""
    tls: ClientTls | None = None
    compression: str = "off"

    def address(self, user: str, password: bytes, database: str = "") -> Address:
        """The path as a driver takes it."""
        return Address(
            user=user,
            password=password,
            host=self.host,
            port=self.port,
            database=database,
            namespace=self.namespace,
            tls=self.tls,
            compression=self.compression,
        )
