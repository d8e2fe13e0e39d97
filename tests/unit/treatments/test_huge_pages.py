# mypy: disable-error-code="arg-type"
from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts import kernel_settings
from mydyno.hosts.root import HERE
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ServerSpec
from mydyno.treatments.allocator_memory import parse_smaps, pool_mappings
from mydyno.treatments.huge_pages import HugePagesTreatment, Pages, reserve_bytes, unit_bytes
from tests.support.fake_host import FakeHost

MIB = 1 << 20
SMAPS = """\
7f0000000000-7f0010000000 rw-p 00000000 00:0f 1 {name}
Size:             {size} kB
KernelPageSize:     {page} kB
Rss:                   0 kB
AnonHugePages:         0 kB
THPeligible:           {eligible}
VmFlags: rd wr mr mw me ac
"""


def smaps(name: str, size_bytes: int, page_kb: int = 4, eligible: int = 0) -> str:
    return SMAPS.format(name=name, size=size_bytes >> 10, page=page_kb, eligible=eligible)


def test_a_pool_on_reserved_pages_is_found_for_both_mechanisms() -> None:
    for name in ("/anon_hugepage (deleted)", "/SYSV00000000 (deleted)"):
        found = pool_mappings(parse_smaps(smaps(name, 262 * MIB, 2048)), 256 * MIB)
        assert (found.hugetlb, found.plain, found.eligible) == (262 * MIB, 0, 0)


def test_a_silent_fallback_is_seen_though_other_caches_got_their_pages() -> None:
    text = smaps("/anon_hugepage (deleted)", 106 * MIB, 2048) + smaps("", 128 * MIB)
    found = pool_mappings(parse_smaps(text), 128 * MIB)
    assert (found.hugetlb, found.plain) == (0, 128 * MIB)


def test_memory_open_to_transparent_huge_pages_is_told_apart() -> None:
    found = pool_mappings(parse_smaps(smaps("", 256 * MIB, eligible=1)), 256 * MIB)
    assert (found.eligible, found.plain) == (256 * MIB, 0)


def test_a_pool_of_chunks_is_measured_by_the_chunk() -> None:
    assert unit_bytes({"innodb_buffer_pool_size": "1024", "innodb_buffer_pool_chunk_size": "128"}) == 128
    assert unit_bytes({"innodb_buffer_pool_size": "1024", "innodb_buffer_pool_instances": "8"}) == 128
    assert unit_bytes({"innodb_buffer_pool_size": "64", "innodb_buffer_pool_chunk_size": "128"}) == 64


def test_the_reserve_covers_the_pool_and_what_else_asks() -> None:
    small = {"innodb_buffer_pool_size": "1G", "key_buffer_size": "8M", "aria_pagecache_buffer_size": "8M"}
    assert reserve_bytes(small) > 1024 * MIB + 16 * MIB + 32 * MIB
    assert reserve_bytes({"innodb_buffer_pool_size": "1G"}) >= reserve_bytes(small) + 2 * 120 * MIB


def treatment(host: FakeHost, pages: Pages) -> HugePagesTreatment:
    host.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    host.write("proc/sys/vm/nr_hugepages", "7\n")
    host.write("proc/meminfo", "MemTotal: 2048 kB\nMemAvailable:     1024 kB\n")
    made = HugePagesTreatment(pages)
    made.root = host
    return made


def test_mariadb_is_told_beforehand_that_it_switches_thp_off(tmp_path: Path) -> None:
    thp = treatment(FakeHost(tmp_path), "thp")
    assert "for itself" in (thp.server_obstacle(ServerSpec(name="mariadb-10.11")) or "")
    assert thp.server_obstacle(ServerSpec(name="mysql-9.7")) is None


def test_what_stands_in_the_way_is_an_obstacle_with_its_remedy(tmp_path: Path) -> None:
    host, server = FakeHost(tmp_path), ServerSpec(name="mysql-9.7")
    assert "1.0 MiB of memory are free" in (treatment(host, "hugetlb").server_obstacle(server) or "")
    small = treatment(host, "4k")
    assert (small.obstacle(server), small.server_obstacle(server)) == (None, None)
    host.is_root = False
    assert "root" in (small.obstacle(server) or "")


def test_a_killed_study_gives_kernel_settings_back(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    setting = host.write("proc/sys/vm/nr_hugepages", "7\n")
    journal = UndoJournal.begin(tmp_path / "undo", "study", tmp_path, host)
    journal.will_change("sysctl", path=str(setting), before=kernel_settings.read_setting(setting))
    assert kernel_settings.write_setting(setting, "300", host) == "300"
    assert journal.undo_all() == []
    assert setting.read_text() == "7"


def test_nothing_but_kernel_settings_is_ever_written(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="not a kernel setting"):
        kernel_settings.write_setting(tmp_path / "file", "1")
    assert kernel_settings.give_back({"path": "/proc/sys/../../etc/passwd", "before": ""}, HERE) is not None
