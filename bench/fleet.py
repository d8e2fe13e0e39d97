"""What scheduling costs: fake blocks over fake host groups, some of which are lost.

Shown are how often each block was executed, the time relative to the ideal one (all groups that are not lost busy all
the time), and the CPU time and memory of this process. By default 1,000 blocks of 1 s over 20 groups, one of which is
lost after its third block: about a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from collections import Counter

from mydyno.fleet.cluster import Cluster, GroupLostError

LOST_AFTER = 3


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=1000, help="[1000]")
    parser.add_argument("--groups", type=int, default=20, help="[20]")
    parser.add_argument("--lost", type=int, default=1, help="groups that are lost [1]")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a block [1]")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    options = parser.parse_args()
    if not (0 <= options.lost < options.groups and options.blocks > 0 and options.seconds > 0):
        parser.error("at least one group must remain, and blocks and seconds must be above 0")
    return options


async def measure(options: argparse.Namespace) -> dict[str, float]:
    """Execute all blocks."""
    names = [f"group-{number}" for number in range(1, options.groups + 1)]
    failing = set(names[: options.lost])
    by_group: Counter[str] = Counter()
    ended: Counter[int] = Counter()

    async def work(group: str, _: int) -> None:
        if group in failing and by_group[group] == LOST_AFTER:
            raise GroupLostError(group)
        await asyncio.sleep(options.seconds)
        by_group[group] += 1

    async with Cluster(names, work) as cluster:
        began_s, cpu_s = time.monotonic(), time.process_time()
        async for block, _ in cluster.map(range(options.blocks)):
            ended[block] += 1
        took_s, used_s = time.monotonic() - began_s, time.process_time() - cpu_s
    executed = sum(by_group.values())
    ideal_s = options.blocks * options.seconds / (options.groups - options.lost)
    return {
        "blocks": len(ended),
        "executions": executed,
        "took_s": took_s,
        "ideal_s": ideal_s,
        "share_of_a_cpu": used_s / took_s,
        "cpu_ms_per_block": 1000 * used_s / options.blocks,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> int:
    """Measure, and print. Exit code 1: a block was lost or executed twice."""
    options = arguments()
    found = asyncio.run(measure(options))
    if options.json:
        print(json.dumps({"bench": "fleet", **found}, indent=1))
    else:
        print(f"{found['blocks']:.0f} blocks ended, {found['executions']:.0f} executions")
        print(f"{found['took_s']:.1f} s, {found['took_s'] / found['ideal_s']:.3f} times the ideal")
        print(f"{found['share_of_a_cpu']:.1%} of a CPU, {found['cpu_ms_per_block']:.1f} ms per block")
        print(f"{found['peak_rss_mb']:.0f} MB of memory")
    return 0 if found["blocks"] == found["executions"] == options.blocks else 1


if __name__ == "__main__":
    sys.exit(main())
