"""A comparison of statements that breaks off leaves a study that can be read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mydyno.drivers.dynoload import ComparisonOrder, Dynoload
from mydyno.errors import DriverError
from mydyno.execution.interleaved.statement_pairs import compare_statements
from mydyno.store.statements import STATEMENTS_FILE, read_comparison
from tests.support.fake_script import experiment


class Broken(Dynoload):
    """Loses the server of the arm."""

    def __init__(self) -> None:
        pass

    async def compare(self, servers: Any, order: ComparisonOrder) -> None:
        order.records.write_text('{"record":"header","servers":[],"left_out":{}}\n')
        raise DriverError("dynoload: jemalloc/1: lost connection to the server")


async def test_what_was_written_until_a_server_was_lost_is_no_comparison(tmp_path: Path) -> None:
    failed: list[str] = []

    def lane(arm: str, copy: int) -> Any:
        async def begin_counting() -> None:
            pass

        async def step_failed(_step: object, error: Exception) -> None:
            failed.append(f"{arm}/{copy}: {error}")

        instance = SimpleNamespace(process=None, address=lambda _user: None)
        return SimpleNamespace(
            key=(arm, copy), runs_step=lambda _step: True, planned=SimpleNamespace(arm=arm, copy_number=copy, block=1),
            instances=[instance], first_number=1, begin_counting=begin_counting, step_failed=step_failed,
        )  # fmt: skip

    asked = experiment()
    environment: Any = SimpleNamespace(experiment=asked, drivers={"dynoload": Broken()}, sockets=tmp_path)
    step = asked.resolved_steps[0].model_copy(update={"driver": "dynoload", "replay": "capture"})
    lanes = [lane("glibc", 1), lane("jemalloc", 1), lane("glibc", 2)]
    assert await compare_statements(environment, lanes, step, tmp_path, 1.0) == []
    assert failed == ["jemalloc/1: dynoload: jemalloc/1: lost connection to the server"]
    assert read_comparison(tmp_path / STATEMENTS_FILE) is None
    assert (tmp_path / "statements.incomplete").exists()
