"""Local ports that short connections to an external server use up."""

from __future__ import annotations

from pathlib import Path

from mydyno.execution.planning.forecast import port_caution
from mydyno.model.definition.experiment import Step


def step(connections: int = 1, workload: str = "connect", **more: object) -> Step:
    made = {"id": "s", "workload": workload, "connections": connections, "driver": "dynoload"} | more
    return Step.model_validate({"warmup_s": 5.0, "measure_s": 60.0} | made)


def host(folder: Path, first: int, last: int, reuse: int) -> Path:
    (folder / "ip_local_port_range").write_text(f"{first}\t{last}\n")
    (folder / "tcp_tw_reuse").write_text(f"{reuse}\n")
    return folder


def test_the_sum_of_connections_within_the_time_that_a_port_is_kept(tmp_path: Path) -> None:
    usual = host(tmp_path, 32768, 60999, 2)
    words = port_caution([step(), step(4)], "10.0.0.2", usual) or ""
    assert "800 new connections a second need 48000 local ports, for each is kept for 60 s; there are 28232 " in words
    assert "ip_local_port_range is 32768 to 60999, net.ipv4.tcp_tw_reuse is 2" in words
    assert port_caution([step(4)], "127.0.0.1", usual) is None
    assert port_caution([step(4, measure_s=10.0)], "10.0.0.2", usual) is None
    assert port_caution([step(4, rate=100.0)], "10.0.0.2", usual) is None
    assert port_caution([step(4, options={"rate": 100})], "10.0.0.2", usual) is None
    assert port_caution([step(4, "oltp_read_only")], "10.0.0.2", usual) is None
    few = host(tmp_path, 1000, 1199, 1)
    assert port_caution([step(1)], "10.0.0.2", few) is None
    assert "need 400 local ports, for each is kept for 1 s" in (port_caution([step(2)], "10.0.0.2", few) or "")
    assert port_caution([step(2)], "10.0.0.2", tmp_path / "missing") is None
