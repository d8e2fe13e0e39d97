"""What every comparison has as a command: its options, the private servers, the parts, the result on the terminal."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.errors import MydynoError
from support import programs
from support.pairs import MOST_TAKEN, Figure, Line
from support.programs import BenchError, Interrupted, OtherPrograms, Program, others, say
from support.servers import PrivateServers, private_folders

Lines = list[Line | Figure]
LOOK_S = 1.0
CPUS_HELP = "where load and server run: anywhere [free], each on CPUs of its own, or both on one"


@dataclass
class Bench:
    """One benchmark while it runs."""

    servers: PrivateServers
    folder: Path
    programs: list[Program] = field(default_factory=list)
    """Both sides' programs, for the result."""
    settings: dict[str, str] = field(default_factory=dict)
    """Servers and sizes, for the result."""
    commands: dict[str, str] = field(default_factory=dict)
    """The first command of each side and part."""
    skipped: list[str] = field(default_factory=list)

    def use(self, program: Program) -> Program:
        """A program that takes part."""
        self.programs.append(program)
        return program

    def skip(self, reason: str) -> None:
        """A part that is not measured."""
        self.skipped.append(reason)
        say(f"SKIPPED: {reason}")

    def note_command(self, name: str, program: Program, arguments: Sequence[str]) -> None:
        """Keep the first command of this name."""
        self.commands.setdefault(name, shlex.join([*program.command, *arguments]))


Part = Callable[[], Lines]


def parser(description: str, pairs: int, seconds: float, parts: Sequence[str]) -> argparse.ArgumentParser:
    """The options that all comparisons have."""
    name = Path(sys.argv[0]).stem
    result = argparse.ArgumentParser(
        prog=f"bench/run {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--pairs", type=_positive_int, default=pairs, help=f"runs of each program [{pairs}]")
    result.add_argument("--seconds", type=_positive_int, default=int(seconds), help=f"length of a run [{seconds:g}]")
    result.add_argument("--only", nargs="+", choices=parts, metavar="PART", help=f"only these: {', '.join(parts)}")
    result.add_argument("--dynoload", type=Path, metavar="PATH", help="another dynoload than the one of this tree")
    result.add_argument("--cpus", choices=("free", "apart", "one"), default="free", help=CPUS_HELP)
    result.add_argument("--busy", action="store_true", help="measure although other programs take the CPUs")
    result.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    return result


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def run(options: argparse.Namespace, parts_of: Callable[[Bench], Mapping[str, Part]]) -> int:
    """Measure every part asked for. Exit code 0; 1: a target is missed, or a part failed; 3: this host cannot do it."""
    try:
        with private_folders() as (folder, sockets):
            return asyncio.run(_run(options, parts_of, folder, sockets))
    except (BenchError, MydynoError) as error:
        say(f"bench/run: {error}")
        return 3
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted")
        return 130


async def _run(
    options: argparse.Namespace, parts_of: Callable[[Bench], Mapping[str, Part]], folder: Path, sockets: Path
) -> int:
    loop = asyncio.get_running_loop()
    bench = Bench(PrivateServers(loop, folder, sockets), folder)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    working = asyncio.create_task(asyncio.to_thread(_measure, bench, options, parts_of))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        programs.stop()
        raise
    finally:
        # The thread may wait for a server of ours: it goes on until its program is gone.
        await asyncio.wait([working])
        await bench.servers.stop_all()


def _measure(bench: Bench, options: argparse.Namespace, parts_of: Callable[[Bench], Mapping[str, Part]]) -> int:
    began = time.monotonic()
    try:
        check_others(options.busy)
        programs.placement.choose(options.cpus)
        parts = parts_of(bench)
        if options.only and not set(options.only) & set(parts):
            raise BenchError(f"--only {' '.join(options.only)} leaves nothing: measured would be {', '.join(parts)}")
    except Interrupted:
        return 130
    lines: Lines = []
    failed = []
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        try:
            lines += part()
        except Interrupted:
            return 130
        except BenchError as error:
            # A part that fails does not cost the others.
            say(f"{name} FAILED: {error}")
            failed.append(name)
    elapsed_s = time.monotonic() - began
    if options.json:
        print(json.dumps(_record(bench, options, lines, failed, elapsed_s), indent=1))
    else:
        _show(bench, options, lines, failed, elapsed_s)
    if failed or any(line.verdict == "MISSED" for line in lines):
        return 1
    return 3 if any(line.verdict.startswith("not judged") for line in lines) else 0


def check_others(anyway: bool, others: OtherPrograms = others, sleep: Callable[[float], None] = programs.sleep) -> None:
    """Raises BenchError where others take more than MOST_TAKEN of the CPUs now, unless it is to be measured anyway."""
    others.begin()
    sleep(LOOK_S)
    others.add(0.0)
    taken = others.take()
    if taken > MOST_TAKEN:
        words = f"other programs take {taken:.0%} of this host's CPUs, so no ratio would hold"
        if not anyway:
            raise BenchError(f"{words}: wait until they are done, or measure with --busy")
        say(f"{words}; measuring with --busy")


def host_text() -> str:
    """The host in one line."""
    return f"{os.cpu_count()} CPUs, Linux {platform.release()}, load average {os.getloadavg()[0]:.1f}"


def _record(
    bench: Bench, options: argparse.Namespace, lines: Lines, failed: list[str], elapsed_s: float
) -> dict[str, object]:
    return {
        "bench": Path(sys.argv[0]).stem,
        "command": shlex.join(sys.argv),
        "host": host_text(),
        "versions": {program.name: program.version for program in bench.programs},
        "settings": bench.settings,
        "commands": bench.commands,
        "pairs": options.pairs,
        "seconds": options.seconds,
        "elapsed_s": elapsed_s,
        "skipped": bench.skipped,
        "failed": failed,
        "lines": [line.record() for line in lines],
    }


def _show(bench: Bench, options: argparse.Namespace, lines: Lines, failed: list[str], elapsed_s: float) -> None:
    print(f"\n{host_text()}")
    for program in bench.programs:
        print(f"{program.name}: {program.version}")
    for name, text in bench.settings.items():
        print(f"{name}: {text}")
    for name, text in bench.commands.items():
        print(f"  {name}: {text}")
    print(
        f"\n{options.pairs} pairs in the order ABBA, {options.seconds} s a run, {elapsed_s:.0f} s in all; "
        "ratio (95 % t interval of the mean of the paired logarithms)\n"
    )
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        print(f"{line.name:<{width}}  {line.text()}")
    for reason in bench.skipped:
        print(f"SKIPPED: {reason}")
    for name in failed:
        print(f"FAILED: {name}")
