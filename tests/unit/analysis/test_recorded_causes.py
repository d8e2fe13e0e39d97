"""What is named first in recorded studies of bench/run causes, each with one planted cause in one arm.

tests/support/data/causes/NAME.json has what the summary of a study on a host with two busy CPUs had beyond noise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from mydyno.analysis.candidates import candidates_of
from mydyno.model.stored.counted import KernelRecord, ProfilesRecord, WaitsRecord
from mydyno.model.stored.summary import CostsRecord, EffectRecord

FOLDER = Path(__file__).parents[2] / "support/data/causes"
FIRST = {
    "spin": "function/send",
    "flush-log": "cost/fsyncs",
    "redo-log": "cost/pages_flushed",
    "buffer-pool": "cost/buffer_pool_reads",
    "binary-log": "kernel/file_sync",
    "disk-tables": "cost/temporary_disk_tables",
    "hot-row": "cost/row_lock_time_us",
    "cpu-quota": "kernel/run_queue",
    "bandwidth": "wait/client and network",
    "slow-client": "cost/driver_cpu_us",
    "table-cache": "cost/table_cache_misses",
}


class Recorded(BaseModel):
    """The part of a summary that candidates are made from."""

    effects: list[EffectRecord]
    costs: CostsRecord
    profiles: ProfilesRecord | None = None
    waits: WaitsRecord | None = None
    kernel: KernelRecord | None = None

    def candidates(self) -> list[str]:
        """KIND/NAME, the first first."""
        found = candidates_of(self.effects, self.costs, self.profiles, self.waits, self.kernel)
        return [f"{one.kind}/{one.name}" for one in found]


def recorded(name: str) -> Recorded:
    return Recorded.model_validate_json((FOLDER / f"{name}.json").read_text())


@pytest.mark.parametrize("name", FIRST)
def test_the_planted_cause_of_a_recorded_study_comes_first(name: str) -> None:
    assert recorded(name).candidates()[:1] == [FIRST[name]]


def test_every_recorded_study_is_tested() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(FIRST)


def test_write_calls_that_flushed_pages_account_for_are_not_named_beside_them() -> None:
    """A page that is flushed is a write call: both numbers are the same, and their order would be noise."""
    names = recorded("redo-log").candidates()
    assert "cost/pages_flushed" in names
    assert "cost/data_writes" not in names


def test_waits_for_the_thread_that_flushes_come_after_the_flush() -> None:
    """Group commit: one thread waits for fsync, and the others wait for it in futex(2), all together for longer."""
    assert recorded("binary-log").candidates() == ["kernel/file_sync", "kernel/futex"]


def test_a_number_of_lock_waits_is_no_candidate_where_their_time_is_known_and_too_short() -> None:
    assert "cost/row_lock_waits" not in recorded("binary-log").candidates()
    costs = {one.cost: one for one in recorded("binary-log").costs.costs}
    assert costs["row_lock_waits"].beyond_noise
    assert costs["row_lock_time_us"].arm_value < 10
