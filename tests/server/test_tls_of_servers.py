"""TLS and compression on servers that turn TLS on by themselves, with every option: each proved, "off" too."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.servers.catalogue import get_build
from tests.support.network_study import network_study
from tests.support.real import lend_cache

pytestmark = pytest.mark.exhaustive

EXPERIMENT = """
name = "spoken-{short}"
question = "Is every option proved?"
server = {{ name = "{server}", variables = {{ innodb_buffer_pool_size = "128M" }} }}
data = {{ tables = 1, rows = 1000 }}
validity = {{ steady = "report", driver_cpu = 1, steal = "99%" }}
verdict.primary = "tps"
[arms]
control = "off"
off = {{ tls = "off", compression = "off" }}
suite.tls = {{ version = "1.2", cipher = "ECDHE-RSA-AES256-GCM-SHA384", verify = "ca", resumption = false }}
suite.compression = {first}
identity.tls = {{ version = "1.3", cipher = "TLS_AES_128_GCM_SHA256", verify = "identity", key = "ecdsa-p256" }}
identity.compression = {second}
[[steps]]
workload = "oltp_read_only"
connections = 2
warmup = "0.2s"
measure = "1s"
driver = "dynoload"
[[steps]]
workload = "connect"
connections = 2
warmup = "0.2s"
measure = "1s"
driver = "dynoload"
[design]
blocks = 1
"""
COMPRESSION = {
    "mariadb-11.8": ('{ algorithm = "zlib", level = 1 }', '"zlib"'),
    "mysql-9.7": ('{ algorithm = "zstd", level = 7 }', '{ algorithm = "zlib", level = 9 }'),
}


def texts(run: dict[str, Any], treatment: str) -> list[str]:
    assert run["valid"], run["reasons"]
    return [one["text"] for one in run["evidence"] if one["treatment"] == treatment]


@pytest.mark.parametrize("server", COMPRESSION)
def test_every_option_is_proved(server: str, real_paths: HostPaths, apart: list[str]) -> None:
    asyncio.run(get_build(ServerSpec(name=server), real_paths.cache, LocalHost("tests", None)))
    first, second = COMPRESSION[server]
    text = EXPERIMENT.format(short=server.partition("-")[0], server=server, first=first, second=second)
    with network_study(f"spoken-{server.partition('-')[0]}", text, apart) as study:
        lend_cache(real_paths.cache, study.cache)
        exit_code, output = study.finish("run", str(study.file), "--studies", str(study.studies))
        assert exit_code == 0, output
        (folder,) = study.studies.iterdir()
        runs = {run["arm"]: run for file in folder.glob("blocks/*/*/run.json") if (run := json.loads(file.read_text()))}
    off = " ".join(texts(runs["off"], "tls"))
    assert "Ssl_cipher is empty" in off
    assert off.count("dynoload counted 0 TLS handshakes") == 2
    session, kept, churn = texts(runs["suite"], "tls")
    assert "Ssl_version TLSv1.2, Ssl_cipher ECDHE-RSA-AES256-GCM-SHA384" in session
    assert "2 full handshakes and 0 resumed ones (2 with TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384)" in kept
    assert " and 0 resumed ones" in churn
    session, kept, churn = texts(runs["identity"], "tls")
    assert "Ssl_version TLSv1.3" in session
    assert "with TLSv1.3 TLS_AES_128_GCM_SHA256" in kept
    resumed = next(one for one in runs["identity"]["steps"] if one["id"] == "connect-2")["driver"]["tls"]["whole_load"]
    assert resumed["resumed"] > 10 * resumed["full"], churn
    if server == "mysql-9.7":
        assert "zstd" in texts(runs["suite"], "compression")[0]
        assert "7" in texts(runs["suite"], "compression")[0]
    assert all("Compression ON" in texts(runs[arm], "compression")[0] for arm in ("suite", "identity"))
