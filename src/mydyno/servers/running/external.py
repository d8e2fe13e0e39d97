"""An external server, named by a DSN: nothing is started, stopped or configured, and written only when allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from mydyno.hosts.local import LocalHost
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import ServerRecord
from mydyno.servers.running.base import CONTROL_USER, LOAD_USER, ClientPath, RunningServer, in_list
from mydyno.servers.sql import Address, ClientTls
from mydyno.servers.statistics import tables_of


class ExternalServer(RunningServer):
    """The server of a study with server.dsn; its settings carry the load's path and nothing else."""

    is_private: ClassVar[bool] = False

    def __init__(
        self,
        addresses: Sequence[Address],
        host: LocalHost,
        folder: Path,
        log: Path,
        card: str | None = None,
        number: int = 1,
    ) -> None:
        """`addresses`: of the arm's servers, of which this is the one of its build_number. `card`: this host's
        interface that leads there, whose speed treatments may set; None: none was named.
        """
        super().__init__(host, folder, log, number=number)
        self._addresses = addresses
        self.card = card

    @property
    def _address(self) -> Address:
        return self._addresses[(self.build_number - 1) % len(self._addresses)]

    @property
    def data(self) -> Path:
        """A folder of this host: the server's own data directory is on its host."""
        return self.folder

    @property
    def pid(self) -> int:
        """0: no process of this host is sampled as the server's."""
        return 0

    def address(self, user: str = CONTROL_USER, database: str = "") -> Address:  # noqa: ARG002 - there is one account
        """The DSN's; for the load with the TLS that a load has, or what a treatment has set for its path."""
        if user != LOAD_USER:
            return self._address
        if self.settings.client_path is None:
            return replace(self._address, tls=self._tls.of_load)
        return self.settings.client_path.address(self._address.user, self._address.password, self._address.database)

    @property
    def _tls(self) -> ClientTls:
        return self._address.tls or ClientTls()

    def ensure_client_path(self) -> ClientPath:
        """The DSN's host, port and TLS, which treatments change; they add compression."""
        if self.settings.client_path is None:
            tls = self._tls.of_load
            self.settings.client_path = ClientPath(self._address.host, self._address.port, "", tls=tls)
        return self.settings.client_path

    async def start(self) -> None:
        """Nothing: it runs already; the first statement shows whether it does."""

    async def stop(self) -> str | None:
        """It is not stopped."""
        return None

    async def prewarm(self, statements: Sequence[str]) -> None:
        """Nothing: an external server is not prewarmed."""

    async def record(self) -> ServerRecord:
        """What the server reports about itself by SQL."""
        version = ServerVersion.parse(await self.reported_version())
        async with self.control() as control:
            variables = await control.variables()
            tables = await tables_of(control, self._address.database) if self._address.database else None
        return ServerRecord(
            tables=tables,
            version=version.text,
            version_comment=variables.get("version_comment", ""),
            flavour=version.flavour,
            variables=variables,
        )

    def probe_target(self) -> str:
        """Its status by SQL; no process."""
        address = self._address
        tls = self._tls
        named = {
            **({"socket": address.socket} if address.socket else {"host": address.host, "port": address.port}),
            "user": address.user,
            "ssl-mode": tls.mode,
            "ssl-ca": tls.authority,
            "ssl-cert": tls.certificate,
            "ssl-key": tls.key,
        }
        return ",".join([f"{self.number}:-", *(f"{key}={in_list(value)}" for key, value in named.items() if value)])
