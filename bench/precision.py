"""How precise the interleaved design and the block design are in the same time on this host.

The question is that of the built-in experiment allocators at its quick scale, but every arm is the same glibc, so that
every difference is noise. Both designs get the same time, one after the other; the order changes from round to round.
The interleaved design fits blocks and cycles into its time. The block design makes runs until its time is over, with
the length of steps that allocators had at this scale in the block design. Each half-width is that of the 95 % t
interval of one comparison, and the median over the arms; with several rounds, the median over the rounds. The ratio
is that of the half-widths in logarithms. CPU is given per transaction, which both designs have. "Plain" is without the
adjustment for the host's speed. Takes two times --time for each round.

On a quiet host both designs are precise. --noise 0.3 makes it a noisy one: processes that run before all others take on
average 30 % of the CPU time away, in bursts and episodes, the same ones for both designs of a round.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from support.noisy_host import noisy_host
from support.programs import BenchError, end_as_by_ctrl_c, say
from support.studies import END_S, make_study, seconds

METRICS = {"qps": "queries per second", "server_cpu_us_per_transaction": "server CPU per transaction"}
MOST_BLOCKS = 1000
COPIES = ("copy-1", "copy-2")
"""The arms that are compared with the control."""
EXPERIMENT = """\
base = "allocators"
name = "precision-{design}"
question = "How precise is the design {design} on this host?"
published = []

[arms]
control = "glibc"
glibc = {{ allocator = "glibc" }}
copy-1 = {{ allocator = "glibc" }}
copy-2 = {{ allocator = "glibc" }}

[verdict]
margin = "0.01%"                        # nothing is decided before the time is over

[scale.quick]
design = {{ {settings} }}
steps = [
  {{ workload = "oltp_read_write", connections = 64, {lengths} }},
]
"""


@dataclass(frozen=True)
class Precision:
    """What one study of one design gave."""

    design: str
    took_s: float
    steal: float
    """Share of the host's CPU time that the hypervisor took meanwhile."""
    blocks: int
    half_widths: dict[str, float | None]
    """`step metric` → half-width in logarithms; None: too few blocks for an interval."""
    plain: dict[str, float | None]
    """The same without the adjustment for the host's speed; of the block design the same."""


def experiment(design: str, time_s: float) -> str:
    """The experiment file of one design."""
    if design == "interleaved":
        settings, lengths = f'kind = "interleaved", time = "{time_s:.0f}s"', 'warmup = "1s", measure = "8s"'
    else:
        settings, lengths = f'kind = "blocks", time = "none", blocks = {MOST_BLOCKS}', 'warmup = "2s", measure = "4s"'
    return EXPERIMENT.format(design=design, settings=settings, lengths=lengths)


def study(design: str, time_s: float, folder: Path) -> Precision:
    """Run one study of one design for so long."""
    made = make_study(experiment(design, time_s), folder, time_s, interrupt=design == "blocks")
    if made.summary["design"] != design:
        raise BenchError(f"the study was made in the design {made.summary['design']} instead of {design}")
    widths = (half_widths(one) for one in (made.summary, plain(made.summary)))
    return Precision(design, made.took_s, made.steal, made.blocks, *widths)


def half_widths(summary: dict[str, Any]) -> dict[str, float | None]:
    """`step metric` → median over the arms of the half-width of one comparison's 95 % interval, in logarithms.

    From the runs' values, since an interleaved study gives no effects before its first look.
    """
    found: dict[str, float | None] = {}
    for step in summary["steps"]:
        for metric in METRICS:
            values = {
                (run["arm"], run["copy"], run["block"]): value
                for run in summary["runs"]
                if run["valid"] and (value := run["values"].get(step["id"], {}).get(metric))
            }
            widths = [_half_width(values, arm, summary["control"]) for arm in COPIES]
            known = [width for width in widths if width is not None]
            found[f"{step['id']} {metric}"] = statistics.median(known) if known else None
    return found


def plain(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary with the values of its runs as they were before the adjustment."""
    return {**summary, "runs": [{**run, "values": run.get("unadjusted") or run["values"]} for run in summary["runs"]]}


def _half_width(values: dict[tuple[str, int, int], float], arm: str, control: str) -> float | None:
    """Half-width of the interval of the blocks' log ratios of an arm to the mean of the control's two copies."""
    ratios = []
    for name, _, block in values:
        reference = [math.log(values[control, copy, block]) for copy in (1, 2) if (control, copy, block) in values]
        if name == arm and reference:
            ratios.append(math.log(values[arm, 1, block]) - statistics.mean(reference))
    if len(ratios) < 2:
        return None
    return t_quantile(len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))


def t_quantile(freedom: int) -> float:
    """The 97.5th percentile of Student's t: exact for 1 and 2, else by its expansion in 1/freedom (error < 0.2 %)."""
    if freedom <= 2:
        return {1: 12.7062, 2: 4.3027}[freedom]
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))


def middle(found: list[dict[str, float | None]], key: str) -> float | None:
    """The median over the rounds; None where no round has one."""
    widths = [width for one in found if (width := one.get(key)) is not None]
    return statistics.median(widths) if widths else None


def percent(width: float | None) -> str:
    """±x % of a half-width in logarithms."""
    return "no interval" if width is None else f"±{100 * math.expm1(min(width, 20.0)):.3g} %"


def show(studies: list[Precision]) -> None:
    """The table for a person."""
    blocks, interleaved = ([one for one in studies if one.design == name] for name in ("blocks", "interleaved"))
    line = "{:<20} {:<28} {:>14} {:>14} {:>14} {:>20}"
    print(line.format("step", "metric", "blocks", "interleaved", "plain", "blocks/interleaved"))
    for key in interleaved[0].half_widths:
        step, metric = key.split(" ")
        wide, narrow = (middle([one.half_widths for one in of], key) for of in (blocks, interleaved))
        before = middle([one.plain for one in interleaved], key)
        ratio = f"{wide / narrow:.1f}" if wide and narrow else "unknown"
        print(line.format(step, METRICS[metric], percent(wide), percent(narrow), percent(before), ratio))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=seconds, default=600.0, metavar="10m", help="time for each design in a round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--noise", type=float, default=0.0, metavar="SHARE", help="of CPU time to take away [0]")
    parser.add_argument("--keep", type=Path, help="a new folder for the studies; otherwise they are removed")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path) -> list[Precision]:
    """Every round's two studies."""
    studies: list[Precision] = []
    for number in range(1, options.rounds + 1):
        order = ("interleaved", "blocks") if number % 2 else ("blocks", "interleaved")
        for design in order:
            time_s = options.time
            if design == "blocks" and studies and studies[-1].design == "interleaved":
                time_s = studies[-1].took_s
            say(f"round {number} of {options.rounds}: {design}, {time_s:.0f} s")
            with noisy_host(options.noise, time_s + 2 * END_S, seed=number):
                made = study(design, time_s, folder / str(number) / design)
            say(f"  {made.blocks} blocks in {made.took_s:.0f} s, steal {made.steal:.0%}")
            studies.append(made)
    return studies


def main() -> int:
    """Measure, and print."""
    options = arguments()
    end_as_by_ctrl_c()
    try:
        if options.keep:
            studies = measure(options, options.keep)
        else:
            with tempfile.TemporaryDirectory(prefix="mydyno-precision-") as folder:
                studies = measure(options, Path(folder))
    except BenchError as error:
        say(f"bench/run: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    if options.json:
        print(json.dumps({"bench": "precision", "studies": [asdict(one) for one in studies]}, indent=1))
    else:
        show(studies)
    return 0


if __name__ == "__main__":
    sys.exit(main())
