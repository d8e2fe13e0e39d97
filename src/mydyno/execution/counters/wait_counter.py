"""The counter of the waits of a few servers during a slice: performance_schema, or a test's fake."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mydyno.execution.counters.counting import Counting
from mydyno.servers.running.base import RunningServer
from mydyno.servers.wait_counting import Counted

StartCounting = Callable[[Sequence[RunningServer]], Counting[Counted]]
