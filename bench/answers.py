"""Whether studies answer truly on this host: equal arms, and effects of known size.

Two parts, both with the server, data and load of the built-in experiment allocators at its quick scale.

equal    Studies whose arms are all the same, so that every effect found is a false alarm. Shown are the false alarms
         (contrasts with a verdict "higher" or "lower", and contrasts whose own 95 % interval excludes 1), the median of
         the effects, and how wide the intervals are.
planted  One study with a library preloaded into the server that changes it by a known amount: CPU time burnt in every
         answer (3 % of what a query costs), a CPU quota of 90 % of what the server uses, and a stall of 1 s in every
         10 s. Shown is what was planted beside the effect found. A short study before it measures 3 % and 90 %.

Takes --time for each study: by default 4 studies with 10 arms each, and one planted, 50 minutes in all. --noise 0.3
makes the host a noisy one: processes that run before all others take on average 30 % of the CPU time away.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from support.noisy_host import noisy_host
from support.programs import REPOSITORY, BenchError, end_as_by_ctrl_c, say
from support.studies import END_S, Study, make_study, seconds

METRICS = {"qps": "queries per second", "server_cpu_us_per_query": "server CPU per query"}
COST_SHARE, QUOTA_SHARE, STALL_EVERY_MS, STALL_MS = 0.03, 0.9, 10_000, 1_000
PLANTS = ("burns", "quota", "stalls")
PILOT_S = 180.0
EXPERIMENT = """\
base = "allocators"
name = "{name}"
question = "{question}"
published = []

[arms]
control = "plain"
{arms}

[verdict]
margin = "0.01%"                        # nothing is equivalent: the study takes its whole time

[treatments]
{treatments}

[scale.quick]
design = {{ {design} }}
"""


@dataclass(frozen=True)
class Contrast:
    """An effect found, beside the one that is there."""

    study: int
    arm: str
    metric: str
    true_ratio: float
    ratio: float
    low: float
    high: float
    """Simultaneous interval of the study."""
    verdict: str

    @property
    def covers(self) -> bool:
        """Whether the interval has the true ratio."""
        return self.low <= self.true_ratio <= self.high

    @property
    def answers(self) -> bool:
        """Whether the verdict has the right sign, for a true effect; none, for no effect."""
        if self.true_ratio == 1.0:
            return self.verdict not in {"higher", "lower"}
        return self.verdict == ("higher" if self.true_ratio > 1 else "lower")


def percent(ratio: float) -> str:
    """A ratio as a signed change."""
    return f"{100 * (ratio - 1):+.1f} %"


def contrast(study: Study, number: int, arm: str, metric: str, true_ratio: float) -> Contrast | None:
    """The effect of an arm in a study of one step; None where it has none."""
    effects = [one for one in study.summary["effects"] if (one["arm"], one["metric"]) == (arm, metric)]
    if len(effects) != 1 or effects[0]["ci_low"] is None:
        say(f"  {arm} has no effect on {metric}: {[one['sentence'] for one in effects]}")
        return None
    (found,) = effects
    return Contrast(
        number, arm, metric, true_ratio, found["ratio"], found["ci_low"], found["ci_high"], found["verdict"]
    )


def measured(text: str, folder: Path, time_s: float) -> Study:
    """A study, with what it took on stderr."""
    study = make_study(text, folder, time_s)
    say(f"  {study.blocks} blocks in {study.took_s:.0f} s, steal {study.steal:.0%}")
    for sentence in study.summary["answer"]:
        say(f"  {sentence}")
    return study


def equal(options: argparse.Namespace, folder: Path) -> list[Contrast]:
    """Every contrast of the studies with equal arms."""
    found: list[Contrast | None] = []
    arms = [f"copy-{number}" for number in range(1, options.arms + 1)]
    lines = "\n".join(f'{arm} = {{ allocator = "glibc" }}' for arm in ("plain", *arms))
    for number in range(1, options.rounds + 1):
        say(f"equal arms, study {number} of {options.rounds}, {options.time:.0f} s")
        design = f'kind = "interleaved", time = "{options.time:.0f}s", seed = {options.seed + number}'
        question = "Is the server as fast as itself?"
        text = EXPERIMENT.format(
            name="equal-arms", question=question, arms=lines, treatments=options.treatments, design=design
        )
        study = measured(text, folder / f"equal-{number}", options.time)
        found += [contrast(study, number, arm, metric, 1.0) for arm in arms for metric in METRICS]
    return [one for one in found if one is not None]


def preloading(library: Path, **settings: int) -> str:
    """The treatment that preloads the plant."""
    words = [f'LD_PRELOAD = "{library}"', *(f'PLANT_{name.upper()} = "{value}"' for name, value in settings.items())]
    return f"environment = {{ {', '.join(words)} }}"


def planted(options: argparse.Namespace, folder: Path) -> list[Contrast]:
    """The planted effects."""
    library = folder / "libplant.so"
    source = REPOSITORY / "tests/support/plant.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    plain = preloading(library)
    say("a short study of the server as it is")
    pilot = measured(
        EXPERIMENT.format(
            name="planted-pilot",
            question="What does a query cost?",
            arms=f"plain = {{ {plain} }}\ncopy = {{ {plain} }}",
            treatments=options.treatments,
            design='kind = "interleaved", time = "none", blocks = 1, cycles = 6',
        ),
        folder / "pilot",
        PILOT_S,
    )
    cost_us = pilot.mean("plain", "server_cpu_us_per_query")
    cpus = pilot.mean("plain", "qps") * cost_us / 1e6
    burn_ns, quota = round(1000 * COST_SHARE * cost_us), round(QUOTA_SHARE * cpus, 3)
    say(f"a query costs {cost_us:.1f} us of CPU time, the server uses {cpus:.2f} CPUs: burn {burn_ns} ns, {quota} CPUs")
    stall = preloading(library, stall_every_ms=STALL_EVERY_MS, stall_ms=STALL_MS)
    arms = {
        "burns": preloading(library, burn_ns=burn_ns),
        "quota": f"cgroup = {{ cpu_quota = {quota} }}, {plain}",
        "stalls": stall,
    }
    present = {"plain": plain, **{name: arms[name] for name in PLANTS if name in options.plants}}
    text = EXPERIMENT.format(
        name="planted",
        question="Are planted effects found?",
        arms="\n".join(f"{name} = {{ {text} }}" for name, text in present.items()),
        treatments=options.treatments,
        design=f'kind = "interleaved", time = "{options.time:.0f}s", seed = {options.seed}',
    )
    study = measured(text, folder / "planted", options.time)
    mean_us, mean_qps = study.mean("plain", "server_cpu_us_per_query"), study.mean("plain", "qps")
    true = {
        ("burns", "server_cpu_us_per_query"): 1 + burn_ns / 1000 / mean_us,
        ("stalls", "qps"): 1 - STALL_MS / STALL_EVERY_MS,
    }
    if "quota" in present:
        true["quota", "qps"] = quota * 1e6 / study.mean("quota", "server_cpu_us_per_query") / mean_qps
    true = {key: true[key] for key in sorted(true) if key[0] in present}
    found = [contrast(study, 0, arm, metric, ratio) for (arm, metric), ratio in true.items()]
    return [one for one in found if one is not None]


def show_equal(found: list[Contrast]) -> None:
    """The false alarms."""
    for metric, name in METRICS.items():
        rows = [one for one in found if one.metric == metric]
        if not rows:
            continue
        alarms = [one for one in rows if not one.answers]
        outside = [one for one in rows if not one.covers]
        middle = statistics.median(one.ratio for one in rows)
        width = statistics.median(math.log(one.high / one.low) / 2 for one in rows)
        print(
            f"{name}: {len(rows)} contrasts of equal arms, {len(alarms)} false alarms ({len(alarms) / len(rows):.0%}), "
            f"{len(outside)} intervals without 1, median effect {percent(middle)}, "
            f"median half-width {100 * math.expm1(width):.1f} %"
        )


def show_planted(found: list[Contrast]) -> None:
    """Planted beside found."""
    line = "{:<8} {:<22} {:>9} {:>9}  {:<22} {:<14} {}"
    print(line.format("arm", "metric", "planted", "found", "interval", "verdict", "size within interval"))
    for one in found:
        interval = f"{percent(one.low)} to {percent(one.high)}"
        size = "yes" if one.covers else "NO"
        cells = (one.arm, METRICS[one.metric], percent(one.true_ratio), percent(one.ratio), interval, one.verdict, size)
        print(line.format(*cells))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("equal", "planted"), help="only this part")
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=PLANTS, help="the planted arms [all]")
    parser.add_argument("--treatments", default="", metavar="TOML", help="of every arm, such as 'affinity = \"one\"'")
    parser.add_argument("--time", type=seconds, default=600.0, metavar="10m", help="time for each study [10m]")
    parser.add_argument("--rounds", type=int, default=4, help="studies with equal arms [4]")
    parser.add_argument("--arms", type=int, default=10, help="arms of each beside the control [10]")
    parser.add_argument("--seed", type=int, default=1, help="of the order of slices [1]")
    parser.add_argument("--noise", type=float, default=0.0, metavar="SHARE", help="of CPU time to take away [0]")
    parser.add_argument("--keep", type=Path, help="a new folder for the studies; otherwise they are removed")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path) -> tuple[list[Contrast], list[Contrast]]:
    """Both parts, or one."""
    folder.chmod(0o755)  # the server's own user reads the library
    studies = options.rounds + 2
    with noisy_host(options.noise, studies * (options.time + 2 * END_S), options.seed):
        return (
            planted(options, folder) if options.only != "equal" else [],
            equal(options, folder) if options.only != "planted" else [],
        )


def main() -> int:
    """Measure, and print. Exit code 1: a planted effect was not found, or a study failed."""
    options = arguments()
    end_as_by_ctrl_c()
    try:
        if options.keep:
            options.keep.mkdir(parents=True)
            plants, equals = measure(options, options.keep.resolve())
        else:
            with tempfile.TemporaryDirectory(prefix="mydyno-answers-") as folder:
                plants, equals = measure(options, Path(folder))
    except BenchError as error:
        say(f"bench/run: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    if options.json:
        result: dict[str, Any] = {"planted": [asdict(one) for one in plants], "equal": [asdict(one) for one in equals]}
        print(json.dumps({"bench": "answers", **result}, indent=1))
    else:
        if plants:
            show_planted(plants)
        show_equal(equals)
    return 0 if all(one.answers for one in plants) else 1


if __name__ == "__main__":
    sys.exit(main())
