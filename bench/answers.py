"""Whether studies answer truly on this host: equal arms, and effects of known size.

Three parts, the first two with the server, data and load of the built-in experiment allocators at its quick scale.

equal    Studies whose arms are all the same, so that every effect found is a false alarm. Shown are the false alarms
         (contrasts with a verdict "higher" or "lower", and contrasts whose own 95 % interval excludes 1), the median of
         the effects, and how wide the intervals are.
planted  Studies with a library preloaded into the server that changes it by a known amount: CPU time burnt in every
         answer (1, 2 and 3 % of what a query costs), a CPU quota of 90 % of what the server uses, and stalls: of 1 s
         in every 10 s, and of 2 ms in every 100 ms. A short study before them measures what a query costs.
client   Studies of one server whose client computes longer in one arm, 5 % of what it takes for a transaction. What it
         adds to its own cost must not make throughput higher, nor move the server's CPU time per query. That a load
         which waits otherwise changes the server's own cost a little is not excluded: compare the plain half-width.

Of the last two is shown, for each plant, what was planted, in how many studies it was found and with the wrong sign, in
how many the interval has it, and the median half-widths, with the adjustment for the host's speed and plain. Of the
quota and of the client's throughput the sign alone is known: what a query costs differs with them.

Takes --time for each study: by default 4 studies with 10 arms each, one planted and one of the client, an hour in all.
With --keep FOLDER a benchmark that was interrupted continues: studies that are complete there are not made again.
With --ledger FILE the effects of each study are added to that file, and the tables are of all studies in it: many short
benchmarks, also on several hosts, become a long one.
--noise 0.3 makes the host a noisy one: processes that run before all others take on average 30 % of the CPU time away.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from support.noisy_host import noisy_host
from support.plants import ARM, CONTROL, plants
from support.programs import REPOSITORY, BenchError, end_as_by_ctrl_c, say
from support.studies import END_S, Study, complete_study, make_study, seconds

ERROR_RATE = 0.05
"""At most so many studies have a false claim."""
LEAST_CHANCE = 0.01
"""More false claims than in this share of such benchmarks are a failure."""
METRICS = {"qps": "queries per second", "server_cpu_us_per_query": "server CPU per query"}
BURNS = {f"burns-{percent}": percent / 100 for percent in (1, 2, 3)}
"""Share of what a query costs the server."""
STALLS_MS = {"stalls": (10_000, 1_000), "waits": (100, 2)}
"""(every, for)"""
QUOTA_SHARE = 0.9
PLANTS = (*BURNS, "quota", *STALLS_MS)
NONE = "none"
"""The planted studies' arm without any."""
CLIENT, CLIENT_SHARE = "client", 0.05
SIGN_ALONE = {("quota", "qps"), (CLIENT, "qps")}
"""Plants whose exact size is not known."""
CLIENT_TURNS = 20_000
"""Of the client's loop, in the short study that measures what a turn takes."""
PARTS = ("equal", "planted", CLIENT)
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

    part: str
    study: str
    """Its folder's name: experiment and time."""
    time_s: float
    noise: float
    arm: str
    metric: str
    true_ratio: float
    ratio: float
    ci_low: float
    ci_high: float
    """Simultaneous interval of the study."""
    verdict: str
    plain_width: float | None = None
    """Half of the interval's without the adjustment, of logs; None: not known."""

    @property
    def covers(self) -> bool:
        """Whether the interval has the true ratio."""
        return self.ci_low <= self.true_ratio <= self.ci_high

    @property
    def width(self) -> float:
        """Half of the interval's, of logs."""
        return half_width(self.ci_low, self.ci_high)

    @property
    def answers(self) -> bool:
        """Whether the verdict has the right sign, for a true effect; none, for no effect."""
        if self.true_ratio == 1.0:
            return self.verdict not in {"higher", "lower"}
        return self.verdict == ("higher" if self.true_ratio > 1 else "lower")


def half_width(low: float, high: float) -> float:
    """Of logs."""
    return math.log(high / low) / 2


def half_widths(rows: list[Contrast]) -> str:
    """The medians, with the adjustment and plain."""
    plain = [one.plain_width for one in rows if one.plain_width is not None]
    medians = [statistics.median(one.width for one in rows), *([statistics.median(plain)] if plain else [])]
    return " / ".join(f"{100 * math.expm1(width):.1f} %" for width in medians)


class Ledger:
    """The contrasts of this benchmark's studies, and of all that the file (None: no file) has."""

    def __init__(self, path: Path | None, time_s: float, noise: float) -> None:
        self.path = path
        self.time_s, self.noise = time_s, noise
        self.contrasts: list[Contrast] = []
        if path is not None and path.is_file():
            self.contrasts = [Contrast(**row) for row in json.loads(path.read_text())]

    def add(self, part: str, study: Study, true_ratios: Mapping[tuple[str, str], float]) -> None:
        """The effects of a study of one step, by arm and metric, each beside its true ratio; a study once."""
        if any(one.study == study.folder.name for one in self.contrasts):
            return
        for (arm, metric), true_ratio in true_ratios.items():
            effects = [one for one in study.summary["effects"] if (one["arm"], one["metric"]) == (arm, metric)]
            if len(effects) != 1 or effects[0]["ci_low"] is None:
                say(f"  {arm} has no effect on {metric}: {[one['sentence'] for one in effects]}")
                continue
            found = {name: effects[0][name] for name in ("ratio", "ci_low", "ci_high", "verdict")}
            _, low, high = effects[0]["unadjusted"] or (None, None, None)
            found["plain_width"] = half_width(low, high) if low and high else None
            name = CLIENT if part == CLIENT else arm
            self.contrasts.append(
                Contrast(part, study.folder.name, self.time_s, self.noise, name, metric, true_ratio, **found)
            )
        if self.path is not None:
            text = json.dumps([asdict(one) for one in self.contrasts], indent=0)
            self.path.with_suffix(".new").write_text(f"{text}\n")
            self.path.with_suffix(".new").replace(self.path)

    def of(self, part: str, time_s: float, noise: float) -> list[Contrast]:
        """Those of a part, of studies of this time, with this share of the CPU time taken away."""
        return [one for one in self.contrasts if (one.part, one.time_s, one.noise) == (part, time_s, noise)]


def percent(ratio: float) -> str:
    """A ratio as a signed change."""
    return f"{100 * (ratio - 1):+.1f} %"


def measured(text: str, folder: Path, time_s: float) -> Study:
    """A study, with what it took on stderr."""
    made = folder / "experiment.toml"
    if made.is_file() and made.read_text() != text:
        shutil.rmtree(folder)  # of other options
    study = complete_study(folder) or make_study(text, folder, time_s)
    say(f"  {study.blocks} blocks in {study.took_s:.0f} s, steal {study.steal:.0%}")
    for sentence in study.summary["answer"]:
        say(f"  {sentence}")
    return study


def equal(options: argparse.Namespace, folder: Path, ledger: Ledger) -> None:
    """The studies with equal arms."""
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
        ledger.add("equal", study, {(arm, metric): 1.0 for arm in arms for metric in METRICS})


def preloading(library: Path, **settings: int) -> str:
    """The treatment that preloads the plant."""
    words = [f'LD_PRELOAD = "{library}"', *(f'PLANT_{name.upper()} = "{value}"' for name, value in settings.items())]
    return f"environment = {{ {', '.join(words)} }}"


def planted(options: argparse.Namespace, folder: Path, ledger: Ledger) -> None:
    """The studies with planted effects, and an arm without any."""
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
    quota = round(QUOTA_SHARE * cpus, 3)
    say(f"a query costs {cost_us:.1f} us of CPU time, the server uses {cpus:.2f} CPUs: a quota of {quota} CPUs")
    arms = {name: preloading(library, burn_ns=round(1000 * share * cost_us)) for name, share in BURNS.items()}
    arms["quota"] = f"cgroup = {{ cpu_quota = {quota} }}, {plain}"
    arms |= {
        name: preloading(library, stall_every_ms=every, stall_ms=length) for name, (every, length) in STALLS_MS.items()
    }
    present = {"plain": plain, NONE: plain, **{name: arms[name] for name in PLANTS if name in options.plants}}
    for number in range(1, options.planted_rounds + 1):
        say(f"planted effects, study {number} of {options.planted_rounds}, {options.time:.0f} s")
        text = EXPERIMENT.format(
            name="planted",
            question="Are planted effects found?",
            arms="\n".join(f"{name} = {{ {text} }}" for name, text in present.items()),
            treatments=options.treatments,
            design=f'kind = "interleaved", time = "{options.time:.0f}s", seed = {options.seed + number}',
        )
        study = measured(text, folder / f"planted-{number}", options.time)
        mean_us = study.mean("plain", "server_cpu_us_per_query")
        true = {
            (name, "server_cpu_us_per_query"): 1 + round(1000 * share * cost_us) / 1000 / mean_us
            for name, share in BURNS.items()
        }
        true |= {(name, "qps"): 1 - length / every for name, (every, length) in STALLS_MS.items()}
        if "quota" in present:
            true["quota", "qps"] = QUOTA_SHARE
        true |= {(NONE, metric): 1.0 for metric in METRICS}
        ledger.add("planted", study, {key: true[key] for key in sorted(true) if key[0] in present})


def client(options: argparse.Namespace, folder: Path, ledger: Ledger) -> None:
    """The studies of a client that is dearer in one arm, whose server costs the same."""
    plant = plants(Path("unused"))["slow-client"]

    def text(name: str, turns: int, time_s: float, seed: int) -> str:
        made = plant.experiment(name, time_s, seed).replace('plant = "slow"', f'plant = "slow", turns = {turns}')
        return made.replace('primary = "tps"', 'primary = ["qps", "server_cpu_us_per_query"]')

    say("a short study of what the client's loop takes")
    pilot = measured(text("client-pilot", CLIENT_TURNS, PILOT_S, 1), folder / "client-pilot", PILOT_S)
    own_us, dear_us = (pilot.mean(arm, "driver_cpu_us_per_transaction") for arm in (CONTROL, ARM))
    turns = max(1, round(CLIENT_TURNS * CLIENT_SHARE * own_us / max(dear_us - own_us, 1e-3)))
    say(
        f"a transaction costs the client {own_us:.1f} us, {CLIENT_TURNS} turns {dear_us - own_us:.1f} us: {turns} turns"
    )
    served_us = pilot.mean(CONTROL, "server_cpu_us_per_transaction") + own_us
    slowest = served_us / (served_us + CLIENT_SHARE * own_us)  # where all CPUs are busy
    for number in range(1, options.planted_rounds + 1):
        say(f"dearer client, study {number} of {options.planted_rounds}, {options.time:.0f} s")
        made = text(f"client-{number}", turns, options.time, options.seed + number)
        study = measured(made, folder / f"client-{number}", options.time)
        ledger.add(CLIENT, study, {(ARM, "server_cpu_us_per_query"): 1.0, (ARM, "qps"): slowest})


def show_equal(found: list[Contrast]) -> None:
    """The false alarms."""
    for metric, name in METRICS.items():
        rows = [one for one in found if one.metric == metric]
        if not rows:
            continue
        alarms = [one for one in rows if not one.answers]
        outside = [one for one in rows if not one.covers]
        middle = statistics.median(one.ratio for one in rows)
        of_study = [
            statistics.fmean(math.log(one.ratio) for one in rows if one.study == number)
            for number in sorted({one.study for one in rows})
        ]
        error = f" ± {100 * statistics.stdev(of_study) / math.sqrt(len(of_study)):.2f}" if len(of_study) > 1 else ""
        print(
            f"{name}: {len(of_study)} studies, {len(rows)} contrasts of equal arms, "
            f"{len(alarms)} false alarms ({len(alarms) / len(rows):.0%}), "
            f"{len(outside)} intervals without 1, median effect {percent(middle)}, "
            f"mean of the studies {100 * statistics.fmean(of_study):+.2f}{error} %, "
            f"median half-width {half_widths(rows)}"
        )


def show_planted(found: list[Contrast]) -> None:
    """Planted beside found, each plant over its studies."""
    line = "{:<9} {:<22} {:>8} {:>8} {:>8} {:>6} {:>6} {:>8} {:>19}"
    heads = ("plant", "metric", "planted", "median", "studies", "found", "wrong", "covered", "half-width / plain")
    print(line.format(*heads))
    for plant, metric in dict.fromkeys((one.arm, one.metric) for one in found):
        rows = [one for one in found if (one.arm, one.metric) == (plant, metric)]
        claimed = [one for one in rows if one.verdict in {"higher", "lower"}]
        right = [one for one in claimed if one.answers]
        covered = "–" if (plant, metric) in SIGN_ALONE else sum(one.covers for one in rows)
        cells = (
            plant, METRICS[metric], percent(statistics.median(one.true_ratio for one in rows)),
            percent(statistics.median(one.ratio for one in rows)), len(rows), len(right), len(claimed) - len(right),
            covered, half_widths(rows),
        )  # fmt: skip
        print(line.format(*cells))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="only this part")
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=PLANTS, help="the planted arms [all]")
    parser.add_argument("--treatments", default="", metavar="TOML", help="of every arm, such as 'affinity = \"one\"'")
    parser.add_argument("--time", type=seconds, default=600.0, metavar="10m", help="time for each study [10m]")
    parser.add_argument("--rounds", type=int, default=4, help="studies with equal arms [4]")
    parser.add_argument("--planted-rounds", type=int, default=1, help="studies of each other part [1]")
    parser.add_argument("--arms", type=int, default=10, help="arms of each beside the control [10]")
    parser.add_argument("--seed", type=int, default=1, help="of the order of slices [1]")
    parser.add_argument("--noise", type=float, default=0.0, metavar="SHARE", help="of CPU time to take away [0]")
    parser.add_argument("--keep", type=Path, help="a folder for the studies, where complete ones are used again")
    parser.add_argument("--ledger", type=Path, metavar="FILE", help="with the effects of all studies until now")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path, ledger: Ledger) -> None:
    """All parts, or one."""
    folder.chmod(0o755)  # the server's own user reads the library
    studies = options.rounds + 2 * options.planted_rounds + 2
    with noisy_host(options.noise, studies * (options.time + 2 * END_S), options.seed):
        for part, make in zip(PARTS, (equal, planted, client), strict=True):
            if options.only in (None, part):
                make(options, folder, ledger)


def show(ledger: Ledger) -> None:
    """The tables, of each time and each noise."""
    for time_s, noise in sorted({(one.time_s, one.noise) for one in ledger.contrasts}):
        print(f"Studies of {time_s:.0f} s{f' while {noise:.0%} of the CPU time is taken away' if noise else ''}:")
        if plants := ledger.of("planted", time_s, noise) + ledger.of(CLIENT, time_s, noise):
            show_planted(plants)
        show_equal(ledger.of("equal", time_s, noise))


def has_too_many_false(found: list[Contrast]) -> bool:
    """Whether more studies have a false claim than the error rate of a study allows."""
    studies = len({one.study for one in found})
    wrong = len({one.study for one in found if one.verdict in {"higher", "lower"} and not one.answers})
    fewer = (math.comb(studies, k) * ERROR_RATE**k * (1 - ERROR_RATE) ** (studies - k) for k in range(wrong))
    return 1 - sum(fewer) < LEAST_CHANCE


def main() -> int:
    """Measure, and print. Exit code 1: more studies have a false claim than the error rate allows, or one failed."""
    options = arguments()
    end_as_by_ctrl_c()
    ledger = Ledger(options.ledger, options.time, options.noise)
    try:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            measure(options, options.keep.resolve(), ledger)
        else:
            with tempfile.TemporaryDirectory(prefix="mydyno-answers-") as folder:
                measure(options, Path(folder), ledger)
    except BenchError as error:
        say(f"bench/run: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    if options.json:
        print(json.dumps({"bench": "answers", "contrasts": [asdict(one) for one in ledger.contrasts]}, indent=1))
    else:
        show(ledger)
    return 1 if has_too_many_false(ledger.contrasts) else 0


if __name__ == "__main__":
    sys.exit(main())
