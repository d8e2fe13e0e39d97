"""sysctl on the running kernel: set, read back, given back. Needs root and a writable /proc/sys, and says where not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.errors import HostError
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ServerSpec
from mydyno.treatments.sysctl import SysctlTreatment
from tests.support.not_run import note_not_run

pytestmark = pytest.mark.alone

SWAPPINESS = Path("/proc/sys/vm/swappiness")


async def test_the_kernel_takes_a_setting_and_has_its_own_back_afterwards(tmp_path: Path) -> None:
    before = SWAPPINESS.read_text()
    wanted = 43 if before.strip() != "43" else 44
    treatment = SysctlTreatment({"vm.swappiness": wanted})
    missing = treatment.obstacle(ServerSpec(name="mariadb-10.11"))
    if missing is not None:
        assert "root" in missing or "cannot be written" in missing
        note_not_run(f"sysctl: {missing}")
        return
    journal = UndoJournal.begin(tmp_path / "undo", "sysctl-test", tmp_path)
    instance: Any = SimpleNamespace(undo=journal, settings=SimpleNamespace(client_path=None), number=1)
    try:
        await treatment.apply(instance)
        assert SWAPPINESS.read_text().strip() == str(wanted)
        assert (await treatment.evidence(instance)).holds
        assert [entry.facts["before"] for entry in journal.open_entries()] == [before.strip()]
    finally:
        left = journal.undo_all()  # as clean does it after kill -9
    assert left == []
    assert SWAPPINESS.read_text() == before


async def test_a_value_that_the_kernel_refuses_changes_nothing(tmp_path: Path) -> None:
    treatment = SysctlTreatment({"vm.swappiness": -5})
    if treatment.obstacle(ServerSpec(name="mariadb-10.11")) is not None:
        note_not_run("sysctl: a refused value")
        return
    before = SWAPPINESS.read_text()
    journal = UndoJournal.begin(tmp_path / "undo", "sysctl-test", tmp_path)
    instance: Any = SimpleNamespace(undo=journal, settings=SimpleNamespace(client_path=None), number=1)
    try:
        with pytest.raises(HostError, match="swappiness cannot be set to -5"):
            await treatment.apply(instance)
    finally:
        assert journal.undo_all() == []
    assert SWAPPINESS.read_text() == before
