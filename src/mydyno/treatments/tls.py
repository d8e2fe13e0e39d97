"""TLS between load and server: `tls = "off"`, "1.2", "1.3", or { version, cipher, verify, resumption, key }.

The server gets a certificate of the study's own authority and one version of TLS; the load gets the same, so that no
other can be spoken. Proved twice in every run: a session on the load's own path is asked for Ssl_version and Ssl_cipher
before the load, and after each step the server's counters tell how many of the load's sessions made a TLS handshake:
all of them, or, with "off", none; dynoload tells version and suite of every session of its own, and whether its
handshake was a full one or resumed an earlier session. Whether the server resumes sessions is tried before the load by
two sessions; the load offers its own where `resumption` is true. Only dynoload can be held to it: sysbench 1.0.20 goes
on in plain text where TLS fails. "off" goes with any driver.

An external server (dsn) keeps its own certificate and its own choice of versions: the load's side alone is held, and
its own count of handshakes stands for the server's, whose counters count other people's sessions too.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from mydyno.errors import ServerError
from mydyno.hosts.certificates import make_certificates
from mydyno.hosts.local import LocalHost
from mydyno.model.experiment import Frozen, Scalar, ServerSpec
from mydyno.model.records import Evidence, StepRecord
from mydyno.servers.external import ExternalInstance
from mydyno.servers.instance import LOAD_USER, Instance
from mydyno.servers.load_session import LoadSession
from mydyno.servers.sql import ClientTls
from mydyno.servers.tls_resumption import resumes_sessions
from mydyno.servers.version import ServerVersion
from mydyno.store.samples import Sample
from mydyno.treatments.base import TreatmentDefaults
from mydyno.treatments.load_path import external_obstacle, plain_sessions, speak
from mydyno.workloads import connect

VersionName = Literal["off", "1.2", "1.3"]
Mode = Literal["required", "verify_ca", "verify_identity"]
DEFAULT_KEY: Literal["rsa-2048"] = "rsa-2048"


class TlsSetting(Frozen):
    """{ version = "1.2", cipher = "ECDHE-RSA-AES128-GCM-SHA256", verify = "identity", resumption = false }."""

    version: VersionName
    cipher: str | None = Field(None, description="the one suite allowed, by OpenSSL's name")
    verify: Literal["none", "ca", "identity"] = Field("none", description="what the load checks of the certificate")
    resumption: bool = Field(True, description="whether a later connection may resume an earlier one's session")
    key: Literal["rsa-2048", "ecdsa-p256"] = Field(DEFAULT_KEY, description="the server's key")


SETTING: TypeAdapter[Any] = TypeAdapter(VersionName | TlsSetting)
MODES: dict[str, Mode] = {
    "none": "required",
    "ca": "verify_ca",
    "identity": "verify_identity",
}


class TlsTreatment(TreatmentDefaults):
    """One arm's TLS."""

    name = "tls"

    def __init__(self, value: str | dict[str, Any]) -> None:
        self.setting = TlsSetting.model_validate({"version": value} if isinstance(value, str) else value)
        self._resumes = False
        """Whether the server resumed a session of this run."""
        self._external = False

    @property
    def touches_client(self) -> bool:
        """The load encrypts and decrypts what the server does."""
        return True

    def obstacle(self, server: ServerSpec) -> str | None:
        """Needs openssl for certificates; an external server has its own, which nobody here can verify or exchange."""
        if server.dsn is not None:
            words = external_obstacle(server)
            chosen = "verify" if self.setting.verify != "none" else "key" if self.setting.key != DEFAULT_KEY else None
            if words is None and chosen is not None:
                return f"{chosen} needs the server's host: the certificate of an external server (dsn) is its owner's"
            return words
        if self.setting.version != "off" and shutil.which("openssl") is None:
            return "openssl is not on PATH: it makes the study's certificates"
        return None

    def driver_obstacle(self, driver: str) -> str | None:
        """sysbench 1.0.20 takes no version and no suite, and speaks plain text where TLS fails."""
        if self.setting.version != "off" and driver != "dynoload":
            return f'{driver} cannot be held to one version of TLS; say driver = "dynoload" in [[steps]]'
        return None

    async def get(self, cache: Path, host: LocalHost) -> dict[str, str]:
        """openssl's version."""
        del cache
        if self.setting.version == "off":
            return {}
        return {"openssl": (await host.run(["openssl", "version"], timeout_s=30)).output.strip()}

    async def apply(self, instance: Instance) -> None:
        """Certificates and the one version into my.cnf; the same to the load."""
        speak(instance)
        if isinstance(instance, ExternalInstance):
            self._external = True
            speak(instance, tls=self._asked("required", None))
            return
        if self.setting.version == "off":
            instance.settings.variables.update(off_variables(instance.build.version))
            speak(instance, tls=ClientTls())
            return
        path = instance.settings.load_path
        assert path is not None
        folder = instance.folder.parent / f"certificates-{self.setting.key}-{path.host}-{instance.number}"
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        made = await make_certificates(folder, self.setting.key, [path.host], instance.host)
        if instance.host.server_user is not None:
            entry = pwd.getpwnam(instance.host.server_user)
            for file in (made.folder, *made.folder.iterdir()):
                os.chown(file, entry.pw_uid, entry.pw_gid)
        instance.settings.folders.append(folder)
        instance.settings.variables.update(
            {"ssl_ca": str(made.authority), "ssl_cert": str(made.certificate), "ssl_key": str(made.key)}
            | server_variables(instance.build.version, self.setting)
        )
        speak(instance, tls=self._asked(MODES[self.setting.verify], made.authority))

    def _asked(self, mode: Mode, authority: Path | None) -> ClientTls:
        """What the load asks of TLS."""
        if self.setting.version == "off":
            return ClientTls()
        ciphers = (self.setting.cipher,) if self.setting.cipher else ()
        return ClientTls(mode, authority, (self.setting.version,), ciphers, self.setting.resumption)

    async def evidence(self, instance: Instance) -> Evidence:
        """Ssl_version and Ssl_cipher of a session on the load's own path."""
        try:
            async with LoadSession(instance.address(LOAD_USER)) as session:
                facts: dict[str, Any] = await session.session_status("Ssl_version", "Ssl_cipher")
            if self.setting.version != "off":
                facts["resumes"] = self._resumes = await resumes_sessions(instance.address(LOAD_USER))
        except ServerError as error:
            return Evidence(treatment=self.name, holds=False, text=error.message, instance=instance.number)
        version, cipher = facts.get("Ssl_version", ""), facts.get("Ssl_cipher", "")
        if self.setting.version == "off":
            holds = not version and not cipher
            text = "a session on the load's path is in plain text (Ssl_cipher is empty)"
        else:
            # Python cannot choose suites of TLS 1.3: of a server not held to one, dynoload's count is the proof.
            open_suite = self._external and self.setting.version == "1.3"
            holds = version == f"TLSv{self.setting.version}" and (open_suite or self.setting.cipher in (None, cipher))
            text = (
                f"a session on the load's path has Ssl_version {version}, Ssl_cipher {cipher}; {self._resuming(facts)}"
            )
        if not holds:
            wanted = self.setting.version if self.setting.cipher is None else self.setting.cipher
            text = f"a session on the load's path has {f'{version} {cipher}'.strip() or 'no TLS'}, wanted {wanted}"
        return Evidence(treatment=self.name, holds=holds, text=text, facts=facts, instance=instance.number)

    def _resuming(self, facts: dict[str, Any]) -> str:
        server = "the server resumes sessions" if facts["resumes"] else "the server resumes no session"
        if not self.setting.resumption:
            return f"{server}, the load offers none"
        return server + (", and the load offers its own" if facts["resumes"] else ": each handshake is a full one")

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
        if step.workload == connect.NAME:
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
        """Every session has the version and the suite that were asked for; resumed ones come only where they may."""
        told = step.driver.tls.get("whole_load", {})
        full, resumed = int(told.get("full", 0)), int(told.get("resumed", 0))
        if self.setting.version == "off":
            return full + resumed == 0, f"dynoload counted {full + resumed} TLS handshakes"
        agreed = [(one["version"], one["cipher_suite"], int(one["connections"])) for one in told.get("negotiated", ())]
        spoken = ", ".join(f"{count} with {version} {suite}" for version, suite, count in agreed)
        text = f"dynoload counted {full} full handshakes and {resumed} resumed ones ({spoken or 'no session'})"
        wanted = f"TLSv{self.setting.version}"
        as_asked = all(version == wanted and self.setting.cipher in (None, suite) for version, suite, _ in agreed)
        holds = as_asked and full + resumed >= step.connections
        if resumed and not self.setting.resumption:
            return False, f"{text}: none was to be resumed"
        if step.workload == connect.NAME and self.setting.resumption and self._resumes and resumed < full:
            return False, f"{text}: most should have been resumed"
        return holds, text


def off_variables(version: ServerVersion) -> dict[str, Scalar]:
    """What turns TLS off in the server: MySQL 8.4 has no `ssl` option any more."""
    if version.flavour == "mysql" and version.number >= (8, 0, 26):
        return {"tls_version": ""}
    return {"ssl": "OFF"}


def server_variables(version: ServerVersion, setting: TlsSetting) -> dict[str, Scalar]:
    """The one version and suite, in the words of this server. Raises ServerError where it is too old for them."""
    mysql = version.flavour == "mysql"
    first = {"1.2": (5, 7, 10) if mysql else (10, 4, 6), "1.3": (8, 0, 16) if mysql else (10, 4, 6)}
    if version.number < first[setting.version]:
        raise ServerError(f"{version.name} cannot be held to TLS {setting.version}; take a newer server, or tls = off")
    found: dict[str, Scalar] = {"tls_version": f"TLSv{setting.version}"}
    if setting.cipher is not None:
        found["tls_ciphersuites" if mysql and setting.version == "1.3" else "ssl_cipher"] = setting.cipher
    if mysql or version.number >= (10, 5, 2):
        found["require_secure_transport"] = "ON"  # a guard; the Unix socket counts as secure
    return found
