"""Another host's monotonic clock, from the times of its samples and those of their arrival.

The least difference of all samples is what the clocks differ by, and what a line needs to arrive: some milliseconds,
of samples of one second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mydyno import clock
from mydyno.store.samples import Sample


@dataclass
class FarClock:
    """The clock of one host."""

    behind_ns: int | None = None
    """What is to be added to its monotonic time for this host's Unix time; None before the first sample."""

    def arrived(self, monotonic_ns: int) -> None:
        """A sample of that time arrives now."""
        late_ns = clock.unix_ns() - monotonic_ns
        self.behind_ns = late_ns if self.behind_ns is None else min(self.behind_ns, late_ns)

    def ours(self, samples: Iterable[Sample]) -> list[Sample]:
        """The samples, whose `unix_ns` is its monotonic time, on this host's clock."""
        behind_ns = self.behind_ns or 0
        return [replace(sample, unix_ns=sample.unix_ns + behind_ns) for sample in samples]
