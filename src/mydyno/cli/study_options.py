"""The options of commands that make a study, and what they resolve to."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

from mydyno import experiments
from mydyno.cli import arguments
from mydyno.cli.streams import STARTED_AS
from mydyno.errors import UserError
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.fleet.groups import parse_hosts
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import BatchJob, BatchKind, HostGroup
from mydyno.model.definition.problems import with_guess

LARGEST_SEED = 999_999


def load_for_study(
    name_or_path: str, scale: str | None = None, settings: Sequence[str] = (), fixed: bool = False
) -> tuple[Experiment, TomlSource]:
    """As experiments.load(); with a fresh seed where it has none, so that repeated studies have other orders.

    `fixed`: with its number of blocks instead of a time.
    """
    experiment, source = experiments.load(name_or_path, scale, settings)
    if fixed and experiment.design.time is not None:
        blocks = ['design.time="none"', f"design.blocks={experiment.design.blocks}"]
        experiment, source = experiments.load(name_or_path, scale, [*settings, *blocks])
    design = experiment.design
    if "seed" not in design.model_fields_set:
        design = design.model_copy(update={"seed": 1 + secrets.randbelow(LARGEST_SEED)})
    return experiment.model_copy(update={"design": design}), source


@dataclass(frozen=True)
class StudyOptions:
    """Of `run`; `plan` takes all of them too, and those from --allow-writes to --openmetrics are only checked there."""

    experiment: arguments.Experiment
    scale: arguments.Scale = None
    settings: arguments.Overrides = None
    blocks: arguments.Blocks = None
    time: arguments.Time = None
    profile: arguments.Profile = False
    waits: arguments.Waits = False
    kernel: arguments.Kernel = False
    hosts: arguments.Hosts = None
    on: arguments.On = None
    on_options: arguments.OnOptions = None
    studies: arguments.Studies = arguments.DEFAULT_STUDIES
    data: arguments.Data = None
    allow_writes: arguments.AllowWrites = False
    allow_changes: arguments.AllowChanges = False
    wait: arguments.Wait = False
    serve: arguments.Serve = False
    openmetrics: arguments.OpenMetrics = None
    as_json: arguments.Json = False
    verbose: arguments.Verbose = False

    def load(self) -> tuple[Experiment, TomlSource]:
        """The experiment with the options in force. Raises UserError."""
        settings = arguments.all_settings(
            self.settings, self.blocks, self.time, self.profile, self.waits, self.kernel
        )  # fmt: skip
        return load_for_study(self.experiment, self.scale, settings, fixed=self.job is not None)

    def groups(self) -> tuple[HostGroup, ...]:
        """Of --hosts; empty without it. Raises UserError."""
        return () if self.hosts is None else parse_hosts(self.hosts, self.data)

    @cached_property
    def job(self) -> BatchJob | None:
        """What --on asks for; None without it. Raises UserError for it with what excludes it."""
        if self.on is None:
            if self.on_options:
                raise UserError("--on-option needs --on", "--on slurm or --on kubernetes")
            return None
        kinds = get_args(BatchKind)
        if self.on not in kinds:
            raise UserError(f"--on {self.on}: unknown; allowed: slurm, kubernetes", with_guess("", self.on, kinds))
        if self.hosts is not None:
            raise UserError("--on and --hosts exclude each other", f"{self.on} chooses the nodes")
        if self.time is not None:
            raise UserError(
                "--on and --time exclude each other", "there are no interim analyses between tasks: use --blocks N"
            )
        if self.data is not None and not self.data.is_absolute():
            raise UserError(f"--data {self.data}: with --on only an absolute path", "it is the same on each node")
        job = BatchJob.model_validate({
            "system": self.on, "program": "mydyno", "data": self.data and str(self.data),
            "options": tuple(self.on_options or ()),
        })  # fmt: skip
        program = job.option("program") or (_program() if self.on == "slurm" else job.program)
        return job.model_copy(update={"program": program})


def _program() -> str:
    """How nodes that share this host's folders start the same program."""
    started = os.environ.get(STARTED_AS)
    if not started:
        return shlex.join([sys.executable, "-m", "mydyno.cli"])
    return shlex.quote(str(Path(started).absolute())) if "/" in started else shlex.quote(started)
