"""Whether reports name a planted cause first: real studies, each with one cause in one arm.

Each study has a control and an arm with one change whose trace is known: a preloaded send() that spins, a flush of the
redo log at each commit, a small redo log, a small buffer pool, a hot row, a slow client, and others. Shown is which
candidate the section "Costs that changed with the effect" has first for the effect on transactions per second, read
from the study's summary, and the effect with its interval. A cause is missed also where the study shows no effect, or
names nothing.

equal     Studies whose arms are all the same. Every candidate that is named there is a false alarm; most such contrasts
          show no effect, and then no cause is looked for.

The studies use profiles, waits and the kernel view where the plant needs them. Takes --time for each study and half a
minute more: by default 11 plants and 2 studies of equal arms, some 50 minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from support.plants import ARM, CONTROL, Plant, plants
from support.programs import REPOSITORY, BenchError, end_as_by_ctrl_c, say
from support.studies import Study, make_study, seconds, study_again

EQUAL = "equal"
EQUAL_ARMS = 5
MOST_S = 600.0
"""For a study on a busy host, besides several times its time."""


@dataclass(frozen=True)
class Contrast:
    """What a study found out about one arm."""

    study: str
    arm: str
    effect: str
    """On transactions per second, with its interval."""
    verdict: str
    candidates: tuple[str, ...]
    """KIND/NAME, the first first."""
    right: tuple[str, ...]
    """What may be first; empty in a study of equal arms."""

    @property
    def outcome(self) -> str:
        """In one word."""
        if not self.right:
            return "named" if self.candidates else "quiet"
        if self.verdict not in {"higher", "lower"}:
            return "no effect"
        if not self.candidates:
            return "none named"
        return "first" if self.candidates[0] in self.right else "MISSED"


def percent(ratio: float) -> str:
    """A ratio as a signed change."""
    return f"{100 * (ratio - 1):+.1f} %"


def contrast(study: Study, name: str, arm: str, right: frozenset[str]) -> Contrast:
    """The effect of an arm on transactions per second, and what came with it. Raises BenchError without one."""
    effects = [one for one in study.summary["effects"] if (one["arm"], one["metric"]) == (arm, "tps")]
    if len(effects) != 1:
        raise BenchError(f"the study {study.folder} has {len(effects)} effects of {arm} on tps")
    (found,) = effects
    text = "not measured"
    if found["ci_low"] is not None:
        text = f"{percent(found['ratio'])} ({percent(found['ci_low'])} to {percent(found['ci_high'])})"
    candidates = [f"{one['kind']}/{one['name']}" for one in study.summary.get("candidates", []) if one["arm"] == arm]
    return Contrast(name, arm, text, found["verdict"], tuple(candidates), tuple(sorted(right)))


def studied(name: str, plant: Plant, options: argparse.Namespace, folder: Path, number: int) -> list[Contrast]:
    """The contrasts of one study: of the plant, or of equal arms. Of --again the study that is there already."""
    arms = [ARM]
    text = plant.experiment(name, options.time, options.seed + number)
    if name.startswith(EQUAL):
        arms = [f"copy-{at}" for at in range(1, EQUAL_ARMS + 1)]
        lines = "".join(f"{arm} = {{ {plant.control} }}\n" for arm in (CONTROL, *arms))
        text = plant.experiment(name, options.time, options.seed + number, lines)
    if options.again:
        study = study_again(folder / name)
    else:
        say(f"{name}: {plant.what if arms == [ARM] else 'equal arms'}")
        study = make_study(text, folder / name, MOST_S + 4 * options.time * len(arms))
    right = plant.right if arms == [ARM] else frozenset()
    found = [contrast(study, name, arm, right) for arm in arms]
    for one in found:
        print(
            f"{name:<12} {one.outcome:<10} tps {one.effect}, {one.verdict}; {study.blocks} blocks; "
            f"{', '.join(one.candidates) or 'nothing named'}",
            flush=True,
        )
    return found


def measure(options: argparse.Namespace, folder: Path) -> tuple[list[Contrast], dict[str, str]]:
    """Every study: its contrasts, and why others have failed."""
    if not options.again:
        folder.chmod(0o755)  # the server's own user reads the library
    library = folder / "libplant.so"
    if not options.again:
        source = REPOSITORY / "tests/support/plant.c"
        subprocess.run(["cc", "-O2", "-g", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    every = plants(library)
    studies = {name: plant for name, plant in every.items() if not options.only or name in options.only}
    if not options.only or EQUAL in options.only:
        base = (every["flush-log"], every["spin"])
        studies |= {f"{EQUAL}-{at + 1}": base[at % len(base)] for at in range(options.equal)}
    found: list[Contrast] = []
    failed = {}
    for number, (name, plant) in enumerate(studies.items()):
        if options.again and not (folder / name).exists():
            continue
        try:
            found += studied(name, plant, options, folder, number)
        except BenchError as error:
            # A study that this host cannot make does not cost the others.
            failed[name] = str(error)
            say(f"{name} FAILED: {error}")
    return found, failed


def names() -> list[str]:
    """What --only takes."""
    return [*plants(Path("plant.so")), EQUAL]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="bench/run causes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=names(), metavar="NAME", help="only these; --list shows the names")
    parser.add_argument("--list", action="store_true", help="print the names and what is planted, and end")
    parser.add_argument("--time", type=seconds, default=180.0, metavar="3m", help="time for each study [3m]")
    parser.add_argument("--equal", type=int, default=2, help=f"studies with {EQUAL_ARMS} equal arms, twice as long [2]")
    parser.add_argument("--seed", type=int, default=1, help="of the order of slices [1]")
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument("--keep", type=Path, help="a new folder for the studies; otherwise they are removed")
    folder.add_argument("--again", type=Path, metavar="FOLDER", help="judge the studies that --keep kept anew")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    if options.equal < 0:
        parser.error("argument --equal: not less than 0")
    if options.keep and options.keep.exists():
        parser.error(f"argument --keep: {options.keep} exists already")
    if options.again and not (options.again.is_dir() and any(options.again.glob("*/studies/*"))):
        parser.error(f"argument --again: there are no studies in {options.again}")
    if options.json and not options.json.absolute().parent.is_dir():
        parser.error(f"argument --json: there is no folder {options.json.absolute().parent}")
    return options


@contextmanager
def folder_for(options: argparse.Namespace) -> Iterator[Path]:
    """Where the studies are."""
    if options.again:
        yield options.again.resolve()
    elif options.keep:
        options.keep.mkdir(parents=True)
        yield options.keep.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="mydyno-causes-") as folder:
            yield Path(folder)


def result(options: argparse.Namespace, found: list[Contrast], failed: dict[str, str]) -> dict[str, Any]:
    """All figures, for JSON."""
    planted = [one for one in found if one.right]
    equal = [one for one in found if not one.right]
    return {
        "bench": "causes",
        "time_s": options.time,
        "planted": len(planted),
        "first": sum(one.outcome == "first" for one in planted),
        "equal": len(equal),
        "named": sum(one.outcome == "named" for one in equal),
        "contrasts": [{**asdict(one), "outcome": one.outcome} for one in found],
        "failed": failed,
    }


def main() -> int:
    """Measure, and print. Exit code 1: a cause was missed, one was named without a cause, or a study failed."""
    options = arguments()
    if options.list:
        for name, plant in plants(Path("plant.so")).items():
            print(f"{name:<12} {plant.what}")
        print(f"{EQUAL:<12} {EQUAL_ARMS} arms that are all the same")
        return 0
    try:
        with folder_for(options) as folder:
            found, failed = measure(options, folder)
    except (BenchError, OSError, subprocess.CalledProcessError) as error:
        say(f"bench/run: {error}")
        return 3
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    figures = result(options, found, failed)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if figures["planted"]:
        print(f"{figures['first']} of {figures['planted']} planted causes came first")
    if figures["equal"]:
        print(f"{figures['named']} of {figures['equal']} contrasts of equal arms named a cause")
    for name in failed:
        print(f"FAILED: {name}")
    return 1 if failed or figures["first"] < figures["planted"] or figures["named"] else 0


if __name__ == "__main__":
    sys.exit(main())
