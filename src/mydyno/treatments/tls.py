"""TLS between load and server: `tls = "off"`, "1.2", "1.3", or { version, cipher, verify, resumption, key }.

The server gets a certificate of the study's own authority and one version of TLS; the load has the same settings.
Verified twice in every run: by Ssl_version and Ssl_cipher of a session on the load's own path, and after each load
level by the server's count of TLS handshakes: all of the load's sessions, or, with "off", none; dynoload reports
version and suite of its sessions, and how many were resumed. The load offers its own sessions if `resumption` is true.
Only dynoload can be restricted to TLS: sysbench 1.0.20 continues in plain text if TLS fails. "off" works with any
driver. dynoload (rustls) has AES-GCM and ChaCha20 with forward secrecy only.

An external server (dsn) keeps its own certificate and its own choice of versions: only the load's side is set, without
`verify` and `key`, and its own count of handshakes replaces that of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from mydyno.errors import ServerError
from mydyno.model.definition.experiment import Frozen, Scalar, ServerSpec
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import Evidence, StepRecord
from mydyno.servers.catalogue import known_servers
from mydyno.servers.running.base import LOAD_USER, RunningServer
from mydyno.servers.running.private import as_private
from mydyno.servers.sql import ClientTls
from mydyno.store.samples import Sample
from mydyno.treatments.client_path import (
    ConnectionTreatment,
    LoadSession,
    configure_client_path,
    external_obstacle,
    open_sessions,
    plain_sessions,
    session_status,
)
from mydyno.workloads.oltp import CONNECT

VersionName = Literal["off", "1.2", "1.3"]
Mode = Literal["required", "verify_ca", "verify_identity"]
DEFAULT_KEY: Literal["rsa-2048"] = "rsa-2048"
STATUS = session_status("Ssl_version", "Ssl_cipher")


class TlsSetting(Frozen):
    """{ version = "1.2", cipher = "ECDHE-RSA-AES128-GCM-SHA256", verify = "identity", resumption = false }."""

    version: VersionName
    cipher: str | None = Field(None, description="the only cipher suite allowed, by OpenSSL's name")
    verify: Literal["none", "ca", "identity"] = Field("none", description="what the load checks of the certificate")
    resumption: bool = Field(True, description="whether a later connection may resume an earlier one's session")
    key: Literal["rsa-2048", "ecdsa-p256"] = Field(DEFAULT_KEY, description="the server's key")


SETTING: TypeAdapter[Any] = TypeAdapter(VersionName | TlsSetting)
MODES: dict[str, Mode] = {"none": "required", "ca": "verify_ca", "identity": "verify_identity"}


class TlsTreatment(ConnectionTreatment):
    """One arm's TLS."""

    name = "tls"

    def __init__(self, value: str | dict[str, Any]) -> None:
        self.setting = TlsSetting.model_validate({"version": value} if isinstance(value, str) else value)
        self._resumes = False
        """Whether the server resumed a session of this run."""
        self._external = False

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server has a certificate of its own, which mydyno cannot verify or replace."""
        if server.dsn is not None:
            words = external_obstacle(server)
            chosen = "verify" if self.setting.verify != "none" else "key" if self.setting.key != DEFAULT_KEY else None
            if words is None and chosen is not None:
                return (
                    f"{chosen} needs the server's host: the certificate of an external server (dsn) cannot be changed, "
                    "and what the load verifies of it is ssl-mode in server.dsn"
                )
            return words
        return None

    def server_obstacle(self, server: ServerSpec) -> str | None:
        """A server that is too old for the one version, or was built without it."""
        entry, version = known_servers().get(server.name or ""), self.setting.version
        if entry is None or version == "off":
            return None
        if entry.traits.tls and f"TLSv{version}" not in entry.traits.tls:
            return f"{entry.title} offers {', '.join(entry.traits.tls)} only; use a newer server, or tls = off"
        try:
            server_variables(entry.version, self.setting)
        except ServerError as error:
            return error.message
        return None

    def driver_obstacle(self, driver: str) -> str | None:
        """sysbench 1.0.20 takes no version and no suite, and speaks plain text where TLS fails."""
        if self.setting.version != "off" and driver != "dynoload":
            return f'{driver} cannot be restricted to one version of TLS; set driver = "dynoload" in [[steps]]'
        return None

    async def apply(self, instance: RunningServer) -> None:
        """Certificates and the one version into my.cnf; the same to the load."""
        configure_client_path(instance)
        if not instance.is_private:
            self._external = True
            configure_client_path(instance, tls=self.tls_of_external(instance.address().tls or ClientTls()))
            return
        if self.setting.version == "off":
            instance.settings.variables.update(off_variables(as_private(instance).build.version))
            configure_client_path(instance, tls=ClientTls())
            return
        # cryptography is slow to load.
        from mydyno.hosts.network.certificates import make_certificates

        path = instance.settings.client_path
        assert path is not None
        folder = instance.folder.parent / f"certificates-{self.setting.key}-{path.host}-{instance.number}"
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        owner = as_private(instance).owner()
        made = await asyncio.to_thread(make_certificates, folder, self.setting.key, [path.host], owner)
        instance.settings.folders.append(folder)
        instance.settings.variables.update(
            {"ssl_ca": str(made.authority), "ssl_cert": str(made.certificate), "ssl_key": str(made.key)}
            | server_variables(as_private(instance).build.version, self.setting)
        )
        configure_client_path(instance, tls=self._client_tls(MODES[self.setting.verify], made.authority))

    def tls_of_external(self, dsn: ClientTls) -> ClientTls:
        """TLS options of the load to an external server; verification and client certificate are those of its DSN."""
        tls = self._client_tls("required", None)
        return (
            tls
            if self.setting.version == "off"
            else replace(
                tls, mode=(dsn.of_load or tls).mode, authority=dsn.authority, certificate=dsn.certificate, key=dsn.key
            )
        )

    def _client_tls(self, mode: Mode, authority: Path | None) -> ClientTls:
        """The TLS options of the load."""
        if self.setting.version == "off":
            return ClientTls()
        ciphers = (self.setting.cipher,) if self.setting.cipher else ()
        authority = authority if mode.startswith("verify") else None
        return ClientTls(mode, authority, (self.setting.version,), ciphers, self.setting.resumption)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Ssl_version and Ssl_cipher of a session on the load's own path."""
        try:
            sessions = await self._sessions(instance)
        except ServerError as error:
            return Evidence(treatment=self.name, holds=False, text=error.message, instance=instance.number)
        facts: dict[str, Any] = dict(sessions[0].status)
        if self.setting.version != "off":
            facts["resumes"] = self._resumes = sessions[-1].tls is not None and sessions[-1].tls.resumed
        version, cipher = facts.get("Ssl_version", ""), facts.get("Ssl_cipher", "")
        if self.setting.version == "off":
            holds = not version and not cipher
            text = "a session on the load's path is in plain text (Ssl_cipher is empty)"
        else:
            holds = version == f"TLSv{self.setting.version}" and self.setting.cipher in (None, cipher)
            text = (
                f"a session on the load's path has Ssl_version {version}, Ssl_cipher {cipher}; {self._resuming(facts)}"
            )
        if not holds:
            wanted = self.setting.version if self.setting.cipher is None else self.setting.cipher
            text = f"a session on the load's path has {f'{version} {cipher}'.strip() or 'no TLS'}, wanted {wanted}"
        return Evidence(treatment=self.name, holds=holds, text=text, facts=facts, instance=instance.number)

    async def _sessions(self, instance: RunningServer) -> tuple[LoadSession, ...]:
        """Sessions of the load's account on its path; with TLS two, of which the second offers to resume the first.

        The server's Ssl_session_cache_hits cannot be used: it does not count sessions resumed by a ticket, as MariaDB
        issues them. The second session offers to resume the first one whatever the load does.
        """
        address = instance.address(LOAD_USER)
        if address.tls is not None:
            address = replace(address, tls=replace(address.tls, resumption=True))
        number = 1 if self.setting.version == "off" else 2
        return await open_sessions(self.program, instance.host, address, [STATUS], number)

    def _resuming(self, facts: dict[str, Any]) -> str:
        server = "the server resumes sessions" if facts["resumes"] else "the server resumes no session"
        if not self.setting.resumption:
            return f"{server}, the load offers no session"
        return server + (", and the load offers its own" if facts["resumes"] else ": every handshake is full")

    def load_evidence(self, step: StepRecord, samples: Sequence[Sample]) -> Evidence:
        """How many of the step's sessions made a TLS handshake, as the server and dynoload counted them."""
        del samples
        facts: dict[str, Any] = {
            "step": step.id,
            "driver_command": [word for word in step.driver.command if word.startswith(("--ssl", "--tls"))],
            "handshakes": step.driver.tls,
        }
        holds, text = True, ""
        if not self._external:
            found = plain_sessions(step)
            if found is None:
                return Evidence(treatment=self.name, holds=False, text=f"{step.id}: the server counted no sessions")
            holds, text = self._as_the_server_counted(step, *found)
            facts |= {"encrypted": found[0], "plain": found[1]}
        if step.driver.driver == "dynoload":
            driver_holds, words = self._as_the_driver_counted(step)
            holds, text = holds and driver_holds, "; ".join(filter(None, (text, words)))
        return Evidence(treatment=self.name, holds=holds, text=f"{step.id}: {text}", facts=facts)

    def _as_the_server_counted(self, step: StepRecord, encrypted: int, plain: int, own: int) -> tuple[bool, str]:
        if step.workload == CONNECT:
            own += step.connections  # cut off in their handshake when the load ended
        if self.setting.version == "off":
            holds = encrypted == 0
            text = f"none of {plain} sessions made a TLS handshake"
        else:
            holds = encrypted >= step.connections and plain <= own
            text = f"{encrypted} sessions with TLS, {plain} without (mydyno's own)"
        if not holds:
            text = f"{encrypted} sessions with TLS and {plain} without, at {step.connections} connections"
        return holds, text

    def _as_the_driver_counted(self, step: StepRecord) -> tuple[bool, str]:
        """Every session has the wanted version and suite; sessions are resumed only if that is allowed."""
        reported = step.driver.tls.get("whole_load", {})
        full, resumed = int(reported.get("full", 0)), int(reported.get("resumed", 0))
        if self.setting.version == "off":
            return full + resumed == 0, f"dynoload counted {full + resumed} TLS handshakes"
        agreed = [
            (one["version"], one["cipher_suite"], int(one["connections"])) for one in reported.get("negotiated", ())
        ]
        sessions = ", ".join(f"{count} with {version} {suite}" for version, suite, count in agreed)
        text = f"dynoload counted {full} full handshakes and {resumed} resumed ones ({sessions or 'no session'})"
        wanted = f"TLSv{self.setting.version}"
        as_requested = all(version == wanted and self.setting.cipher in (None, suite) for version, suite, _ in agreed)
        holds = as_requested and full + resumed >= step.connections
        if resumed and not self.setting.resumption:
            return False, f"{text}: no session should have been resumed"
        if step.workload == CONNECT and self.setting.resumption and self._resumes and resumed < full:
            return False, f"{text}: most should have been resumed"
        return holds, text


def off_variables(version: ServerVersion) -> dict[str, Scalar]:
    """The setting that turns TLS off in the server: MySQL 8.4 has no `ssl` option any more."""
    if version.flavour == "mysql" and version.number >= (8, 0, 26):
        return {"tls_version": ""}
    return {"ssl": "OFF"}


def server_variables(version: ServerVersion, setting: TlsSetting) -> dict[str, Scalar]:
    """The settings of this server for the one version and suite. Raises ServerError if it is too old for them."""
    mysql = version.flavour == "mysql"
    first = {"1.2": (5, 7, 10) if mysql else (10, 4, 6), "1.3": (8, 0, 16) if mysql else (10, 4, 6)}
    if version.number < first[setting.version]:
        raise ServerError(
            f"{version.name} cannot be restricted to TLS {setting.version}; use a newer server, or tls = off"
        )
    found: dict[str, Scalar] = {"tls_version": f"TLSv{setting.version}"}
    if setting.cipher is not None:
        found["tls_ciphersuites" if mysql and setting.version == "1.3" else "ssl_cipher"] = setting.cipher
    if mysql or version.number >= (10, 5, 2):
        found["require_secure_transport"] = "ON"  # a guard; the Unix socket counts as secure
    return found
