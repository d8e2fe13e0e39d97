"""dynoprobe beside a real server: one source that it cannot read, and paths with a comma, take nothing else away."""

from __future__ import annotations

from pathlib import Path

from mydyno.execution.environments.probe import Probe
from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.base import CONTROL_USER
from mydyno.servers.running.mysqld import MysqldServer
from tests.support.patience import until


async def test_data_on_a_tmpfs_and_a_comma_in_the_sockets_folder(
    instance: MysqldServer, real_paths: HostPaths, short_folder: Path, tmp_path: Path
) -> None:
    folder = short_folder / "a,b\\c"
    instance.own(folder)
    instance.socket = folder / "1.sock"
    await instance.start()
    program, target = real_paths.program("dynoprobe"), instance.probe_target()
    assert target.count("\\") == 3
    password = instance.address(CONTROL_USER).password
    probe = Probe(instance.host, program, [(target, password)], Path("/dev/shm"), tmp_path, folder)
    await probe.start(100)
    try:
        await until(lambda: "qps" in probe.newest().get("instance:1", {}))
    finally:
        assert await probe.stop() == []
    unsampled = probe.unsampled()
    assert "no block device" in unsampled.pop("disk")
    assert set(unsampled) <= {"psi"}, "not every kernel has it"
    metrics = {(sample.scope, sample.metric) for sample in probe.samples()[0]}
    assert {("host", "cpu_user_pct"), ("instance:1", "server_rss_bytes")} <= metrics
