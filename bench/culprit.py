"""Whether `mydyno bisect` finds a planted commit: real memcached, made-up commits, one of which burns CPU time.

Each round has a new history of memcached with one commit, at a random place, from which on every answer costs --share
more CPU time of the server. A short study before the first round measures what an answer costs, and what a turn of the
loop costs that is planted. Shown is what each round found, and how long it took.

With --alike each round is one study that compares two builds of one commit, with two primary metrics: CPU time per
query and operations per second. Shown are its verdicts.

Exit code 0: every round found the commit. 1: a round did not; it ended at a wrong commit ("wrong"), at several commits
of which one is the planted one, because comparisons stayed undecided ("range"), or the ends could not be told apart
("undecided", "no difference"); with --alike, more than one round in twenty found a difference in either metric. 3: a
round or the set-up failed.

Takes some five times --time for each round: by default 10 rounds of 15 commits, --time 3m, some two and a half hours.
"""

# Needs requirements-dev.lock.

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from support.programs import REPOSITORY, BenchError, end_as_by_ctrl_c, say
from support.studies import END_S

sys.path.append(str(REPOSITORY))

from tests.support.memcached_commits import COMMAND, QUICK_COMMAND, Change, MemcachedSource, history, memcached_source

from mydyno.errors import MydynoError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.source_build import BuildSpec
from mydyno.packages.progress import silent
from mydyno.servers.compiled.compile import get_compiled

PILOT_TURNS = 50_000
"""An answer then costs about twice as much: noise of a tenth of an answer makes the planted share wrong by a tenth."""
EXPERIMENT = """\
name = "culprit"
question = "Which commit costs more?"
[server.build]
git = "{repository}"
command = "{command}"
environment = {{ {environment} }}
[data]
workload = "kv"
keys = 20_000
# memcached beside its load on two CPUs is in one of two states for seconds on end
[treatments]
affinity = "one"
[arms]
control = "now"
now = {{ {control} }}
{arms}
[[steps]]
workload = "kv_get"
connections = 4
warmup = "0.5s"
[design]
slice = "1s"
washout = "0.2s"
quiet_wait = "1s"
[verdict]
primary = {metrics}
margin = "1%"
"""
METRIC = "server_cpu_us_per_query"
ALIKE_METRICS = (METRIC, "ops")


def text_of(
    source: MemcachedSource, repository: Path, control: str = "", arms: str = "", metrics: Sequence[str] = (METRIC,)
) -> str:
    """The experiment on a repository."""
    environment = ", ".join(f'{name} = "{value}"' for name, value in source.environment.items())
    return EXPERIMENT.format(
        repository=repository, command=QUICK_COMMAND, environment=environment,
        control=control, arms=arms, metrics=json.dumps(metrics),
    )  # fmt: skip


def mydyno(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mydyno in a folder; its progress goes to this program's."""
    path = f"{REPOSITORY / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "mydyno.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    # In a group of its own: Ctrl-C reaches it once, from here.
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, process_group=0)
    try:
        output, _ = process.communicate()
    except BaseException:  # it stops its servers and removes its folders; killed, it would leave them
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_S)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output)


def turns_of(share: float, source: MemcachedSource, objects: list[Path], folder: Path, time_text: str) -> int:
    """The turns of the loop that cost this share of an answer. Raises BenchError."""
    repository = folder / "pilot"
    plain, burning = history(repository, objects, [Change("Begin"), Change("Burn", PILOT_TURNS)])
    arms = f'burns = {{ server.build.ref = "{burning}" }}'
    (folder / "pilot.toml").write_text(text_of(source, repository, f'server.build.ref = "{plain}"', arms))
    done = mydyno(folder, "run", "pilot.toml", "--time", time_text, "--studies", "pilots", "--json")
    if done.returncode:
        raise BenchError("the pilot study failed")
    runs = json.loads(done.stdout)["runs"]
    cost: dict[str, list[float]] = {}
    for run in runs:
        for values in run["values"].values():
            cost.setdefault(run["arm"], []).append(values[METRIC])
    mean = {arm: sum(values) / len(values) for arm, values in cost.items()}
    turn_us = (mean["burns"] - mean["now"]) / PILOT_TURNS
    say(f"an answer costs {mean['now']:.2f} us of CPU time, a turn {1000 * turn_us:.2f} ns")
    if turn_us <= 0:
        raise BenchError("the pilot did not show what a turn costs: give it more time")
    return round(share * mean["now"] / turn_us)


def bisected(number: int, turns: int, options: argparse.Namespace, source: MemcachedSource, objects: list[Path],
             folder: Path) -> str:  # fmt: skip
    """One round: "found", "wrong", "range" or another state of the result."""
    culprit = Random(f"culprit-{options.seed}-{number}").randrange(1, options.commits + 1)
    repository = folder / f"history-{number}"
    changes = [Change(f"Change {at}", turns if at == culprit else None) for at in range(options.commits + 1)]
    commits = history(repository, objects, changes)
    name = f"round-{number}.toml"
    (folder / name).write_text(text_of(source, repository))
    began = time.monotonic()
    done = mydyno(folder, "bisect", name, "--good", commits[0], "--bad", commits[-1], "--time", options.time,
                  "--bisections", f"bisections-{number}", "--json")  # fmt: skip
    if done.returncode not in (0, 5):
        raise BenchError(f"round {number} ended with exit code {done.returncode}")
    result = json.loads(done.stdout)
    state = str(result["state"])
    named = [result["first_bad"]] if state == "found" else result["suspects"]
    if state in ("found", "range") and commits[culprit] not in [one["hash"] for one in named]:
        state = "wrong"
    ends, took_s = result["ends"]["comparison"], time.monotonic() - began
    shown = f"{100 * (ends['ratio'] - 1):+.1f} %" if ends["ratio"] else "not measured"
    path = ", ".join(f"{one['commit']['subject'].split()[-1]} {one['outcome']}" for one in result["comparisons"])
    print(f"round {number:>2}: commit {culprit} of {options.commits}: {state}; ends differ by {shown}; {path}; "
          f"{took_s:.0f} s", flush=True)  # fmt: skip
    return state


def compared(number: int, options: argparse.Namespace, source: MemcachedSource, objects: list[Path],
             folder: Path) -> str:  # fmt: skip
    """One round of --alike: "differs", "equivalent" (in every metric) or "inconclusive"."""
    repository = folder / f"history-{number}"
    (commit,) = history(repository, objects, [Change("Begin")])
    again = f'again = {{ server.build = {{ ref = "{commit}", environment = {{ COPY = "{number}" }} }} }}'
    name = f"round-{number}.toml"
    (folder / name).write_text(text_of(source, repository, f'server.build.ref = "{commit}"', again, ALIKE_METRICS))
    done = mydyno(folder, "run", name, "--time", options.time, "--studies", f"studies-{number}", "--json")
    if done.returncode not in (0, 5):
        raise BenchError(f"round {number} ended with exit code {done.returncode}")
    found = [one for one in json.loads(done.stdout)["effects"] if one["verdict"]]
    shown = []
    for effect in found:
        low, high = effect["ci_low"], effect["ci_high"]
        interval = "" if low is None else f" ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %)"
        shown.append(f"{effect['metric']} {effect['verdict']}{interval}")
    print(f"round {number:>2}: {', '.join(shown)}", flush=True)
    verdicts = {one["verdict"] for one in found}
    if verdicts & {"higher", "lower"}:
        return "differs"
    return "equivalent" if verdicts == {"equivalent"} else "inconclusive"


def alike_exit_code(states: Counter[str]) -> int:
    """0 if at most one round in twenty found a difference between two builds of one commit, else 1."""
    return 0 if 20 * states["differs"] <= states.total() else 1


def exit_code(states: Counter[str]) -> int:
    """0 if every round found the commit, else 1."""
    return 0 if set(states) == {"found"} else 1


def main() -> int:
    """Run all rounds."""
    parser = argparse.ArgumentParser(
        prog="bench/run culprit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10, help="bisections [10]")
    parser.add_argument("--commits", type=int, default=15, help="commits after the good one [15]")
    parser.add_argument("--share", type=float, default=0.05, help="of an answer's CPU time that is planted [0.05]")
    parser.add_argument("--time", default="3m", help="time for one comparison [3m]")
    parser.add_argument("--pilot", default="2m", help="time for the pilot [2m]")
    parser.add_argument("--alike", action="store_true", help="compare two builds of one commit instead")
    parser.add_argument("--seed", type=int, default=1, help="of the places of the commits [1]")
    options = parser.parse_args()
    end_as_by_ctrl_c()
    try:
        with tempfile.TemporaryDirectory(prefix="mydyno-culprit-") as name:
            folder, paths = Path(name), HostPaths.resolve()
            source = asyncio.run(memcached_source(paths.cache))
            spec = BuildSpec(source=str(source.folder), command=COMMAND, environment=source.environment)
            os.environ["MYDYNO_CACHE"] = str(folder / "cache")
            (build,) = asyncio.run(get_compiled(spec, folder / "cache", LocalHost("bench", None), silent))
            os.environ.setdefault("MYDYNO_ENGINE", str(paths.engine))
            objects = sorted(build.basedir.glob("memcached-*.o"))
            rounds = range(1, options.rounds + 1)
            if options.alike:
                say(f"{options.rounds} studies of two builds of one commit")
                states = Counter(compared(number, options, source, objects, folder) for number in rounds)
            else:
                turns = turns_of(options.share, source, objects, folder, options.pilot)
                say(f"{options.rounds} bisections of {options.commits} commits, one with {turns} turns in each answer")
                states = Counter(bisected(number, turns, options, source, objects, folder) for number in rounds)
    except (BenchError, MydynoError) as error:
        say(f"bench/run: {error}")
        return 3
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    print(", ".join(f"{count} of {options.rounds} {state}" for state, count in states.most_common()))
    return alike_exit_code(states) if options.alike else exit_code(states)


if __name__ == "__main__":
    sys.exit(main())
