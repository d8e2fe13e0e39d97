"""The data source name: address, account and TLS, with one clear error for each mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mydyno.drivers.dynoload import ARGUMENTS, protocol_arguments
from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.experiment import ArmSpec, ServerSpec
from mydyno.servers.dsn import PASSWORD_VARIABLE, parse_dsn, unreadable_file
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.external import ExternalServer
from mydyno.servers.sql import Address, ClientTls
from mydyno.treatments.client_path import configure_client_path, external_obstacle
from mydyno.treatments.dsn import addresses_of
from mydyno.treatments.tls import TlsTreatment

DSN = "mysql://bench@db:3307/sbtest"
NOT_UTF_8 = b"pa\xdf\xffwort"


def server_of(dsn: str, folder: Path) -> ExternalServer:
    return ExternalServer([parse_dsn(dsn)], LocalHost("x", None), folder, folder / "log")


def test_tls_is_that_of_mysqls_clients() -> None:
    assert parse_dsn(DSN).tls == ClientTls("preferred")
    assert parse_dsn(f"{DSN}?ssl-mode=disabled").tls == ClientTls()
    assert parse_dsn(f"{DSN}?ssl-mode=REQUIRED").tls == ClientTls("required")
    found = parse_dsn(f"{DSN}?ssl-mode=VERIFY_CA&ssl-ca=/a%20b.pem&ssl-cert=/c.pem&ssl-key=/k.pem")
    assert found.tls == ClientTls("verify_ca", Path("/a b.pem"), certificate=Path("/c.pem"), key=Path("/k.pem"))
    assert (found.host, found.port, found.user, found.database) == ("db", 3307, "bench", "sbtest")
    assert parse_dsn("mysql://bench@/sbtest?socket=/s&ssl-mode=required").socket == "/s"


@pytest.mark.parametrize(("written", "schema"), [("my%20db", "my db"), ("shop#2", "shop#2"), ("shop%232", "shop#2")])
def test_a_schema_has_any_name(written: str, schema: str) -> None:
    assert parse_dsn(f"mysql://bench@db/{written}?ssl-mode=required").database == schema


@pytest.mark.parametrize("host", ["[fe80::1%25eth0]", "[fe80::1%eth0]"])
def test_a_link_local_address_keeps_its_zone(host: str) -> None:
    assert parse_dsn(f"mysql://bench@{host}:3306/sbtest").host == "fe80::1%eth0"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("ssl_mode=required", "unknown parameter ssl_mode(?s:.*)known: socket, ssl-mode, ssl-ca, ssl-cert, ssl-key"),
        ("tls=1", "unknown parameter tls"),
        ("ssl-mode=on", "ssl-mode is on(?s:.*)disabled, preferred, required, verify-ca, verify-identity"),
        ("ssl-mode=", "ssl-mode has no value"),
        ("ssl-mode=required&ssl-mode=disabled", "ssl-mode is there twice"),
        ("ssl-mode=verify-identity", "ssl-mode=verify-identity needs ssl-ca"),
        ("ssl-mode=required&ssl-cert=/c.pem", "ssl-cert and ssl-key belong together"),
        ("ssl-mode=disabled&ssl-ca=/a.pem", "ssl-ca has no effect with ssl-mode=disabled"),
        ("ssl-mode=required&ssl-ca=/a.pem", "ssl-ca has no effect with ssl-mode=required"),
        ("ssl-ca=/a.pem", "ssl-ca has no effect with ssl-mode=preferred"),
    ],
)
def test_a_wrong_parameter_is_refused_with_what_is_allowed(query: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_dsn(f"{DSN}?{query}")


def test_a_file_that_cannot_be_read_is_named_with_its_parameter(tmp_path: Path) -> None:
    assert unreadable_file(parse_dsn(DSN)) is None
    dsn = f"{DSN}?ssl-mode=verify-ca&ssl-ca={tmp_path}/missing.pem"
    words = unreadable_file(parse_dsn(dsn))
    assert words == f"server.dsn: ssl-ca={tmp_path}/missing.pem cannot be read: No such file or directory"
    assert external_obstacle(ServerSpec(dsn=dsn)) == words
    (tmp_path / "missing.pem").write_text("no certificate")
    words = unreadable_file(parse_dsn(dsn)) or ""
    assert words.endswith("/missing.pem holds no certificate in PEM format")


def test_a_password_is_bytes_from_the_environment_to_the_programs_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(os.environ, PASSWORD_VARIABLE, os.fsdecode(NOT_UTF_8))
    address = parse_dsn(DSN)
    assert address.password == NOT_UTF_8
    arguments = ARGUMENTS["oltp"].endpoint(address, tmp_path)
    (file,) = [one.partition("=")[2] for one in arguments if one.startswith("--password-file")]
    assert Path(file).read_bytes() == NOT_UTF_8


def test_an_arms_own_password_comes_before_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "all")
    monkeypatch.setenv(f"{PASSWORD_VARIABLE}_NEW_8_4", "new")
    arms = [ArmSpec(name="new-8.4", treatments={"dsn": DSN}), ArmSpec(name="old", treatments={"dsn": DSN})]
    assert [addresses_of(arm, ServerSpec(dsn=DSN))[0].password for arm in arms] == [b"new", b"all"]
    shared = ArmSpec(name="new-8.4", treatments={})
    assert addresses_of(shared, ServerSpec(dsn=DSN))[0].password == b"all", "the server is not the arm's own"
    assert parse_dsn(DSN).password == b"all"


def test_the_dsn_decides_for_mydynos_own_connections_and_a_treatment_for_the_load(tmp_path: Path) -> None:
    verified = f"{DSN}?ssl-mode=verify-identity&ssl-ca=/ca.pem&ssl-cert=/c.pem&ssl-key=/k.pem"
    files = ["--ssl-ca=/ca.pem", "--ssl-cert=/c.pem", "--ssl-key=/k.pem"]
    own = ["--ssl-mode=verify_identity", *files, "--tls-resumption=on"]

    def load_of(server: ExternalServer) -> list[str]:
        return protocol_arguments(server.address(LOAD_USER))

    server = server_of(verified, tmp_path)
    assert protocol_arguments(server.address()) == load_of(server) == own
    configure_client_path(server, compression="zlib")
    assert load_of(server) == ["--compression=zlib", *own]
    configure_client_path(server, tls=TlsTreatment("1.2").tls_of_external(server.address().tls or ClientTls()))
    assert load_of(server) == ["--compression=zlib", *own[:-1], "--tls-versions=1.2", own[-1]]
    configure_client_path(server, tls=TlsTreatment("off").tls_of_external(server.address().tls or ClientTls()))
    assert load_of(server) == ["--compression=zlib", "--ssl-mode=disabled", "--get-server-public-key"]
    assert protocol_arguments(server.address()) == own

    # A load is never left to choose.
    server = server_of(DSN, tmp_path)
    assert protocol_arguments(server.address())[0] == "--ssl-mode=preferred"
    assert load_of(server) == []
    configure_client_path(server, tls=TlsTreatment("1.3").tls_of_external(ClientTls("preferred")))
    assert load_of(server) == ["--ssl-mode=required", "--tls-versions=1.3", "--tls-resumption=on"]


def test_dynoprobe_has_the_whole_connection(tmp_path: Path) -> None:
    target = server_of(f"{DSN}?ssl-mode=verify-ca&ssl-ca=/a,b.pem", tmp_path).probe_target()
    assert target == r"1:-,host=db,port=3307,user=bench,ssl-mode=verify_ca,ssl-ca=/a\,b.pem"
    target = server_of("mysql://bench@/sbtest?socket=/s", tmp_path).probe_target()
    assert target == "1:-,socket=/s,user=bench,ssl-mode=preferred"


def test_an_address_does_not_show_its_password() -> None:
    assert "secret" not in repr(Address("dyno", b"secret"))
