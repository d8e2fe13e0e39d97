"""The engine's test programs of whole loads: in a file of their own, so that they run beside test_engine.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine import Target, run_other_tests, targets

LOADS = ("tpcc", "sysbench", "slices", "slices_other", "scripts", "kv")
"""Names of programs of dyno-load, the longest first."""
TARGETS = {target.name: target for target in targets() if target.package == "dyno-load" and target.kind == "test"}


@pytest.mark.parametrize("name", LOADS)
def test_the_engine_passes_its_tests_of_loads_on_a_real_server(
    name: str, programs: dict[str, tuple[Path, Path]], server_environment: dict[str, str]
) -> None:
    target: Target = TARGETS[name]
    run_other_tests(target, programs, server_environment)
