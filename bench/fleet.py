"""What studies over hosts cost: scheduling of blocks, a controller of many groups, and mydyno on a measured host.

Three parts, the first two by default:

scheduling   fake blocks over fake groups, some of which are lost and deliver a late copy: how often each block was
             committed, the time relative to the ideal one (all groups that are not lost busy all the time), the CPU
             time and memory of this process. By default 1,000 blocks of 1 s over 20 groups, one of which is lost.
controller   groups whose blocks only report their state once a second, as real ones do: CPU time and memory of this
             process while it reads them and writes each line to a file. 20 groups, 30 s.
host         a real study on --host ADDRESS, a host prepared by `mydyno hosts prepare`; without it, on a host in a
             network namespace of this one with a sshd of its own (root). The CPU time there of all that belongs to
             mydyno and not to server or load (`mydyno block`, its supervisor, dynoprobe, sshd's session) over the load
             of one step, by the kernel's accounts of each process: what else runs does not count.

Exit code 1: a limit is missed, or a block was not committed exactly once; 3: the host cannot do it.
"""

# Needs requirements-dev.lock.

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.fleet.cluster import COMMITTED_EVENT, Cluster, GroupLostError, Leases
from mydyno.fleet.installation import Say
from mydyno.fleet.messages import Lived
from mydyno.fleet.runner import GroupRunner
from mydyno.fleet.study_files import StudyFiles
from mydyno.model.stored.live import LiveSecond
from mydyno.store.logs import Journal
from support.fleet_host import Place, cost, namespaces

PARTS = ("scheduling", "controller", "host")
MOST_MAKESPAN, MOST_CONTROLLER_PCT, MOST_CONTROLLER_MB, MOST_HOST_PCT = 1.10, 5.0, 150.0, 0.3


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], help="scheduling, controller, host")
    parser.add_argument("--blocks", type=int, default=1000, help="[1000]")
    parser.add_argument("--groups", type=int, default=20, help="[20]")
    parser.add_argument("--lost", type=int, default=1, help="groups that are lost [1]")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a block [1]")
    parser.add_argument("--length", type=float, default=30.0, help="of the parts controller and host, in seconds [30]")
    parser.add_argument("--host", metavar="ADDRESS", help="of the part host, e.g. bench@vm1 [a namespace of this host]")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    options = parser.parse_args()
    options.part = options.part or [*PARTS[:2], *PARTS[2:] * bool(options.host)]
    if not (0 <= options.lost < options.groups and options.blocks > 0 and options.seconds > 0 and options.length >= 5):
        parser.error("at least one group must remain, blocks and seconds must be above 0, and --length at least 5")
    return options


def memory_mb() -> float:
    """The most that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _scheduling(options: argparse.Namespace) -> dict[str, float]:
    """Execute all blocks; a lost group delivers its copy when another one has the block."""
    names = [f"group-{number}" for number in range(1, options.groups + 1)]
    failing = set(names[: options.lost])
    late: list[tuple[int, int, str]] = []
    dropped = 0
    with tempfile.TemporaryDirectory(prefix="mydyno-bench-") as folder:
        journal = Journal(Path(folder) / "journal.jsonl")
        leases = Leases(journal)

        def commit(block: int, attempt: int, group: str) -> None:
            nonlocal dropped
            if leases.is_current(block, attempt):
                leases.committed(block, attempt, group)
            else:
                dropped += 1

        async def work(group: str, block: int) -> None:
            attempt = leases.lease(block, group)
            if group in failing:
                leases.lost(block, attempt, group, "the connection ended")
                late.append((block, attempt, group))
                raise GroupLostError(group)
            await asyncio.sleep(options.seconds)
            for copy in [one for one in late if one[0] == block]:
                commit(*copy)
            commit(block, attempt, group)

        async with Cluster(names, work) as cluster:
            began_s, cpu_s = time.monotonic(), time.process_time()
            async for _ in cluster.map(range(options.blocks)):
                continue
            took_s, used_s = time.monotonic() - began_s, time.process_time() - cpu_s
        committed = Counter(event["block"] for event in journal.read() if event["event"] == COMMITTED_EVENT)
    ideal_s = options.seconds * -(-options.blocks // (options.groups - options.lost))
    return {
        "blocks": options.blocks,
        "committed_once": sum(count == 1 for count in committed.values()),
        "late_copies_dropped": dropped,
        "took_s": took_s,
        "ideal_s": ideal_s,
        "cpu_pct": 100 * used_s / took_s,
        "cpu_ms_per_block": 1000 * used_s / options.blocks,
        "peak_rss_mb": memory_mb(),
    }


class _Reporting:
    """`mydyno block` on a fake host: a line a second."""

    stderr_tail = ""

    def __init__(self, group: str, end_s: float) -> None:
        self._group = group
        self._end_s = end_s

    async def lines(self) -> AsyncIterator[str]:
        while time.monotonic() < self._end_s:
            second = LiveSecond(
                unix_ns=time.time_ns(), group=self._group, state="slice", block=1, blocks=20, arm="jemalloc",
                step="oltp_read_write-64", qps=51234.5, latency_p99_us=1234.5,
            )  # fmt: skip
            yield Lived(second=second).model_dump_json()
            await asyncio.sleep(1)

    async def write(self, text: str) -> None:
        del text

    async def wait(self) -> int:
        return 1

    async def end(self) -> None:
        return

    def close_stdin(self) -> None:
        return


class _Link:
    """A fake host."""

    connected = True

    def __init__(self, group: str, end_s: float) -> None:
        self._process = _Reporting(group, end_s)

    async def open(self) -> None:
        return

    async def write_files(self, study: str, files: dict[str, str]) -> str:
        del files
        return study

    async def start(self, arguments: Sequence[str]) -> Any:
        del arguments
        return self._process

    async def copy_files(self, study: str, files: StudyFiles, say: Say) -> str | None:
        del study, files, say
        return None

    async def start_program(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
        raise AssertionError((name, arguments, environment))

    async def fetch(self, folder: str, to: Path) -> None:
        raise AssertionError((folder, to))

    async def remove(self, study: str) -> None:
        del study

    async def close(self) -> None:
        return


async def _controller(options: argparse.Namespace) -> dict[str, float]:
    """All groups report for --length seconds; their blocks then end as lost."""

    class Kept:
        """Writes each line, as live.jsonl is written."""

        lines = 0

        def __init__(self, path: Path) -> None:
            self._file = path.open("w")

        def group_says(self, group: str, text: str, lasting: bool) -> None:
            del group, text, lasting

        def group_second(self, group: str, second: LiveSecond) -> None:
            mine = second.model_copy(update={"group": group, "unix_ns": time.time_ns()})
            self._file.write(mine.model_dump_json(exclude_none=True) + "\n")
            self._file.flush()
            self.lines += 1

    with tempfile.TemporaryDirectory(prefix="mydyno-bench-") as folder:
        report = Kept(Path(folder) / "live.jsonl")
        names = [f"group-{number}" for number in range(1, options.groups + 1)]
        began_s, cpu_s = time.monotonic(), 0.0
        runners = {name: GroupRunner(name, _Link(name, began_s + options.length), report) for name in names}

        async def work(group: str, _: int) -> None:
            try:
                await runners[group]._ask(["block", "study", "--block", "1"], _Never, None)  # type: ignore[type-var]
            except GroupLostError:
                return

        async with Cluster(names, work) as cluster:
            cpu_s = time.process_time()
            async for _ in cluster.map(range(options.groups)):
                continue
            took_s, used_s = time.monotonic() - began_s, time.process_time() - cpu_s
        return {"groups": options.groups, "lines": report.lines, "cpu_pct": 100 * used_s / took_s,
                "peak_rss_mb": memory_mb()}  # fmt: skip


class _Never:
    """No message is one."""


def host(options: argparse.Namespace) -> dict[str, float]:
    """CPU time on the host between two readings during the load of one step. Raises HostError."""
    if options.host:
        return asyncio.run(cost(Place(options.host), options.length))
    with tempfile.TemporaryDirectory(prefix="mydyno-bench-") as folder, namespaces(Path(folder)) as place:
        return asyncio.run(cost(place, options.length))


def print_all(found: dict[str, dict[str, float]]) -> None:
    """The figures, each with its limit."""
    if one := found.get("scheduling"):
        print(f"scheduling: {one['committed_once']:.0f} of {one['blocks']:.0f} blocks committed exactly once, "
              f"{one['late_copies_dropped']:.0f} copies dropped")  # fmt: skip
        ratio = one["took_s"] / one["ideal_s"]
        print(f"  {one['took_s']:.1f} s, {ratio:.3f} times the ideal (limit {MOST_MAKESPAN})")
        print(f"  {one['cpu_pct']:.1f} % of a core, {one['cpu_ms_per_block']:.1f} ms per block, "
              f"{one['peak_rss_mb']:.0f} MB")  # fmt: skip
    if one := found.get("controller"):
        print(f"controller: {one['groups']:.0f} groups, {one['lines']:.0f} lines")
        print(f"  {one['cpu_pct']:.1f} % of a core (limit {MOST_CONTROLLER_PCT}), {one['peak_rss_mb']:.0f} MB "
              f"(limit {MOST_CONTROLLER_MB:.0f})")  # fmt: skip
    if one := found.get("host"):
        parts = ", ".join(f"{name.removesuffix('_pct')} {value:.2f} %" for name, value in one.items()
                          if name.endswith("_pct") and name != "cpu_pct")  # fmt: skip
        print(f"host: {one['cpu_pct']:.2f} % of a core (limit {MOST_HOST_PCT}) over {one['length_s']:.0f} s")
        print(f"  {parts}")


def misses(found: dict[str, dict[str, float]]) -> bool:
    """Whether a limit is missed."""
    one = found.get("scheduling")
    if one and (one["committed_once"] != one["blocks"] or one["took_s"] > MOST_MAKESPAN * one["ideal_s"]):
        return True
    one = found.get("controller")
    if one and (one["cpu_pct"] > MOST_CONTROLLER_PCT or one["peak_rss_mb"] > MOST_CONTROLLER_MB):
        return True
    one = found.get("host")
    return bool(one and one["cpu_pct"] > MOST_HOST_PCT)


def main() -> int:
    """Measure, and print."""
    options = arguments()
    works: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
        "scheduling": lambda given: asyncio.run(_scheduling(given)),
        "controller": lambda given: asyncio.run(_controller(given)),
        "host": host,
    }
    try:
        found = {part: works[part](options) for part in options.part}
    except HostError as error:
        print(f"bench/run fleet: {error}", file=sys.stderr)
        return 3
    if options.json:
        print(json.dumps({"bench": "fleet", **found}, indent=1))
    else:
        print_all(found)
    return int(misses(found))


if __name__ == "__main__":
    sys.exit(main())
