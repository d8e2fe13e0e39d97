"""Studies that a benchmark makes with this tree's program, and what their summaries say."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.programs import REPOSITORY, BenchError

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
END_S = 120.0
"""For a study to stop its servers and write its report after its time is over."""


@dataclass(frozen=True)
class Study:
    """A study that was made."""

    folder: Path
    summary: dict[str, Any]
    took_s: float
    steal: float
    """Share of the host's CPU time that the hypervisor took meanwhile."""

    @property
    def blocks(self) -> int:
        """Blocks with a valid run."""
        return len({run["block"] for run in self.summary["runs"] if run["valid"]})

    def mean(self, arm: str, metric: str) -> float:
        """The mean over blocks and copies of a metric of an arm, in a study of one step. Raises BenchError."""
        values = [
            value
            for run in self.summary["runs"]
            if run["arm"] == arm and run["valid"]
            for step in run["values"].values()
            if (value := step.get(metric)) is not None
        ]
        if not values:
            raise BenchError(f"the study {self.folder} has no value of {metric} for {arm}")
        return float(sum(values) / len(values))


def seconds(text: str) -> float:
    """A duration such as 90s, 10m, 1h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not found or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 90s, 10m or 1h")
    return float(found[1]) * UNITS_S[found[2]]


def cpu_ticks() -> tuple[float, float]:
    """(steal, all) of all CPUs since boot (proc_stat(5))."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[7], sum(fields)


def make_study(text: str, folder: Path, time_s: float, interrupt: bool = False) -> Study:
    """Run an experiment in a new folder, as run_study()."""
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(text)
    return run_study("experiment.toml", folder, time_s, interrupt=interrupt)


def run_study(experiment: str, folder: Path, time_s: float, *options: str, interrupt: bool = False) -> Study:
    """Run an experiment, in a folder without studies. `interrupt`: end it by SIGINT after `time_s`, which is then no
    failure.

    Raises BenchError where the study fails; its output is in the message.
    """
    command = [str(REPOSITORY / "mydyno"), "run", experiment, *options]
    before, began_s = cpu_ticks(), time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, output = process.communicate(timeout=time_s + (0.0 if interrupt else END_S))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=END_S)
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_S)
        raise
    took_s, after = time.monotonic() - began_s, cpu_ticks()
    if process.returncode != 0 and not (interrupt and process.returncode == 130):
        raise BenchError(f"the study in {folder} ended with exit code {process.returncode}:\n{output}")
    return Study(*_reported(folder), took_s, (after[0] - before[0]) / max(after[1] - before[1], 1.0))


def complete_study(folder: Path) -> Study | None:
    """As finished_study(); what else is in the folder is removed."""
    found = finished_study(folder)
    if found is None:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def finished_study(folder: Path) -> Study | None:
    """The study that was made in this folder, where it has its answer."""
    if not [*folder.glob("studies/*/summary.json")]:
        return None
    found = study_again(folder)
    return found if found.summary["state"] == "complete" else None


def study_again(folder: Path) -> Study:
    """A study that make_study() made in this folder, with its report made anew. Raises BenchError without one."""
    if not (folder / "studies").is_dir():
        raise BenchError(f"no study has been made in {folder}")
    return Study(*_reported(folder), 0.0, 0.0)


def _reported(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The study's folder and its summary."""
    (made,) = (folder / "studies").iterdir()
    command = [str(REPOSITORY / "mydyno"), "report", str(made), "--format", "json"]
    return made, json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
