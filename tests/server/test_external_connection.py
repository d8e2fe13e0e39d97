"""The connection to an external server: one description for control, preparation, telemetry and load."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import HostError, MydynoError, UserError
from mydyno.execution.environments.external_environment import ExternalEnvironment, open_external_environment
from mydyno.execution.environments.probe import read_samples
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.hosts.network.certificates import Certificates, make_certificates
from mydyno.hosts.paths import HostPaths
from mydyno.servers.build import ServerBuild
from mydyno.servers.dsn import PASSWORD_VARIABLE
from mydyno.servers.running.base import LOAD_USER
from mydyno.treatments.client_path import open_sessions, session_status
from tests.support.other_server import OtherServer, other_server

PASSWORD = b"pa\xdf\xff'wort"
"""In no encoding."""
EXPERIMENT = """
name = "connection-{pid}"
question = "Which connection?"
data = {{ tables = 1, rows = 100 }}
[server]
dsn = "mysql://bench@127.0.0.1:{port}/sbtest{query}"
[arms]
control = "asis"
{arms}
[[steps]]
workload = "oltp_point_select"
driver = "{driver}"
connections = {connections}
warmup = "1s"
measure = "1s"
"""
AS_IS = 'asis = { compression = "off" }'
PLAIN = 'plain = { tls = "off" }'
TLS = 'tls = { tls = "1.2" }'


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with tempfile.TemporaryDirectory(prefix="mydyno-test-") as folder:
        Path(folder).chmod(0o755)
        made = make_certificates(Path(folder), "ecdsa-p256", ["127.0.0.1"])
        made.key.chmod(0o644)  # the server's user reads it
        yield made


@pytest.fixture(scope="module")
def server(build: ServerBuild, certificates: Certificates) -> Iterator[OtherServer]:
    """It requires TLS."""
    digest = hashlib.sha1(hashlib.sha1(PASSWORD).digest()).hexdigest().upper()
    files = {"ca": certificates.authority, "cert": certificates.certificate, "key": certificates.key}
    options = [f"--ssl-{name}={path}" for name, path in files.items()]
    with other_server(build, f"IDENTIFIED BY PASSWORD '*{digest}'", *options, "--require-secure-transport=ON") as made:
        yield made


class Opener:
    """Opens environments of studies on the server."""

    def __init__(self, server: OtherServer, paths: HostPaths, folder: Path) -> None:
        self.server = server
        self._paths = replace(paths, allow_writes=True)
        self._folder = folder

    @asynccontextmanager
    async def opened(
        self, query: str, *arms: str, driver: str = "dynoload", connections: int = 1
    ) -> AsyncIterator[ExternalEnvironment]:
        text = EXPERIMENT.format(
            pid=os.getpid(), port=self.server.port, query=query, arms="\n".join((AS_IS, *arms)), driver=driver,
            connections=connections,
        )  # fmt: skip
        experiment = parse_experiment(TomlSource.parse("connection.toml", text), vocabulary())
        name = f"connection-{os.getpid()}-x"
        environment = await open_external_environment(self._paths, experiment, name, self._folder, lambda _: None)
        try:
            yield environment
        finally:
            assert environment.close() == []

    async def refused(self, query: str, *arms: str, **options: Any) -> MydynoError:
        with pytest.raises((HostError, UserError)) as raised:
            async with self.opened(query, *arms, **options):
                pass
        return raised.value


@pytest.fixture
def opener(server: OtherServer, real_paths: HostPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
    monkeypatch.setenv(PASSWORD_VARIABLE, os.fsdecode(PASSWORD))
    return Opener(server, real_paths, tmp_path)


async def test_every_part_connects_as_the_dsn_says(opener: Opener, certificates: Certificates, tmp_path: Path) -> None:
    query = f"?ssl-mode=verify-identity&ssl-ca={certificates.authority}"
    async with opener.opened(query, TLS) as environment:
        experiment = environment.experiment
        await environment.template(
            experiment.arms[0], lambda _: None
        )  # control connections and `dynoload oltp prepare`
        assert opener.server.sql("SELECT COUNT(*) FROM sbtest.sbtest1") == [(100,)]
        program = environment.paths.program("dynoload")
        for arm, version in ((experiment.arms[0], "TLSv1.3"), (experiment.arms[1], "TLSv1.2")):
            instance = environment.instance(tmp_path / arm.name, tmp_path / f"{arm.name}.log")
            for treatment in environment.treatments(arm):
                await treatment.get(environment.paths, environment.host)
                await treatment.apply(instance)
                evidence = await treatment.evidence(instance)
                assert evidence.holds, evidence.text
            address = instance.address(LOAD_USER)
            (session,) = await open_sessions(program, environment.host, address, [session_status("Ssl_version")])
            assert session.status == {"Ssl_version": version}
        # No password is in an argument. On a busy host an interval may pass before the probe is connected.
        for interval_ms in (100, 1_000, 10_000):
            probed = tmp_path / f"probe-{interval_ms}"
            done = await environment.host.run(
                [str(environment.paths.program("dynoprobe")), "--once", f"--interval-ms={interval_ms}",
                 f"--output={probed}", f"--instance={instance.probe_target()},password-file={password_file(tmp_path)}"],
                timeout_s=60,
            )  # fmt: skip
            assert done.exit_code == 0, done.output
            samples, _ = read_samples(probed)
            if any(one.scope == "instance:1" and one.metric == "qps" for one in samples):
                break
        else:
            pytest.fail(f"no queries per second by the probe: {done.output}")


def password_file(folder: Path) -> Path:
    path = folder / "password"
    path.write_bytes(PASSWORD)
    return path


async def test_arms_that_the_server_would_refuse_are_named_beforehand(opener: Opener) -> None:
    required = "the server requires TLS (require_secure_transport = ON), and the load would be in plain text"
    error = await opener.refused("", PLAIN, TLS)
    assert isinstance(error, HostError)
    assert error.message == f"arms asis, plain: {required}"
    assert "ssl-mode=required" in error.hint
    assert (await opener.refused("?ssl-mode=required", PLAIN, TLS)).message == f"arm plain: {required}"
    error = await opener.refused("?ssl-mode=required", TLS, driver="sysbench")
    assert isinstance(error, HostError)
    assert "sysbench cannot prove that it uses TLS" in error.message
    # The account alone may require it.
    opener.server.sql("SET GLOBAL require_secure_transport = OFF", "ALTER USER bench REQUIRE SSL")
    try:
        error = await opener.refused("", TLS)
    finally:
        opener.server.sql("SET GLOBAL require_secure_transport = ON", "ALTER USER bench REQUIRE NONE")
    assert error.message.startswith("arm asis: the server requires TLS (control connection: 1045 Access denied")


async def test_a_load_for_which_the_account_has_no_connections_is_refused(opener: Opener) -> None:
    opener.server.sql("ALTER USER bench WITH MAX_USER_CONNECTIONS 10")
    try:
        error = await opener.refused("?ssl-mode=required", TLS, connections=4)
        assert isinstance(error, HostError)
        assert "the 3 runs of a block hold 12 connections" in error.message
        assert error.message.endswith("max_user_connections of the account permits 10")
        opener.server.sql("ALTER USER bench WITH MAX_USER_CONNECTIONS 40")
        async with opener.opened("?ssl-mode=required", TLS, connections=4):
            pass
    finally:
        opener.server.sql("ALTER USER bench WITH MAX_USER_CONNECTIONS 0")


async def test_a_connection_that_fails_has_the_hint_of_its_cause(
    opener: Opener, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_certificates(tmp_path, "ecdsa-p256", ["127.0.0.1"])
    error = await opener.refused(f"?ssl-mode=verify-ca&ssl-ca={other.authority}", TLS)
    assert "CERTIFICATE_VERIFY_FAILED" in error.message
    assert error.hint == "see ssl-mode, ssl-ca, ssl-cert and ssl-key in server.dsn"
    error = await opener.refused("?ssl-mode=disabled", TLS)
    assert "ssl-mode=required, if the server requires TLS" in error.hint
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    error = await opener.refused(f"?ssl-mode=verify-ca&ssl-ca={certificates.authority}", TLS)
    assert "Access denied" in error.message
    assert error.hint == f"is {PASSWORD_VARIABLE} set, and right?"
