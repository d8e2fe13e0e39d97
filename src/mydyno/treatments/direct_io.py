"""A direct write and read inside a control group, timed: whether the kernel enforces the group's I/O limits.

By dd(1) with O_DIRECT, so that neither the page cache nor later write-back is in the time; dd's own clock counts. A
disk that is slower than the limit shows less than the limit, which proves nothing against it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.cgroups import Group, Limits
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.quantities import format_bytes

PROOF_S = 4.0
MOST_BYTES = 1 << 30
PAGE = 4096
_COPIED = re.compile(r"copied, ([\d.e+-]+) s")


@dataclass(frozen=True)
class ThrottledTransfer:
    """The result of one direction."""

    direction: str
    size_bytes: int
    took_s: float
    least_s: float
    """The shortest time at the limit."""
    charged_bytes: int
    """What the group was charged for."""

    @property
    def share(self) -> float:
        """The rate as a share of the limit: above 1 it was too fast."""
        return self.least_s / self.took_s if self.took_s > 0 else float("inf")

    def words(self) -> str:
        """For people."""
        return (
            f"direct {self.direction} of {format_bytes(self.size_bytes)} took {self.took_s:.2f} s, "
            f"{self.share:.0%} of the limit's rate"
        )


async def paced_io(host: LocalHost, group: Group, limits: Limits, path: Path) -> list[ThrottledTransfer]:
    """Write and read a file for some seconds each, as far as they are limited. Raises HostError if dd fails."""
    rates = (
        ("write", limits.write_bps, limits.write_iops),
        ("read", limits.read_bps, limits.read_iops),
    )
    found = []
    try:
        for direction, bps, iops in rates:
            if bps is None and iops is None:
                continue
            block, count = _extent(bps, iops)
            if direction == "read":
                # Blocks that were never written are read without the disk.
                await _dd(
                    host, (), ["if=/dev/zero", f"of={path}", "bs=1M", f"count={-(-block * count >> 20)}"], "oflag"
                )
            places = ["if=/dev/zero", f"of={path}"] if direction == "write" else [f"if={path}", "of=/dev/null"]
            before = group.io_bytes(str(limits.device))
            arguments = [*places, f"bs={block}", f"count={count}"]
            took_s = await _dd(host, group.entering(), arguments, "oflag" if direction == "write" else "iflag")
            after = group.io_bytes(str(limits.device))
            index = 1 if direction == "write" else 0
            least_s = max(block * count / bps if bps else 0.0, count / iops if iops else 0.0)
            found.append(ThrottledTransfer(direction, block * count, took_s, least_s, after[index] - before[index]))
    finally:
        path.unlink(missing_ok=True)
    return found


def _extent(bps: int | None, iops: int | None) -> tuple[int, int]:
    """(block size, number of blocks) for about PROOF_S at the limit. Small blocks where requests are counted."""
    if iops is not None:
        pages = min(iops, bps // PAGE if bps else iops)
        return PAGE, max(10, int(pages * PROOF_S))
    assert bps is not None
    block = max(PAGE, min(1 << 20, bps // 20 // PAGE * PAGE))
    return block, max(10, int(min(bps * PROOF_S, MOST_BYTES) / block))


async def _dd(host: LocalHost, entering: Sequence[str], arguments: Sequence[str], flag: str) -> float:
    """The seconds that dd says it took."""
    argv = ["dd", *arguments, f"{flag}=direct", "conv=notrunc"]
    process = await host.start(argv, stdout=asyncio.subprocess.PIPE, entering=entering)
    output, _ = await process.streams.communicate()
    words = output.decode(errors="replace")
    match = _COPIED.search(words)
    if process.exit_code or match is None:
        raise HostError(f"{' '.join(argv)} failed with exit code {process.exit_code}: {words.strip()[-200:]}")
    return float(match[1])
