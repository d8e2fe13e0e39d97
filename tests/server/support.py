"""Small experiments on real servers, and one run of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mydyno.drivers.base import Progress
from mydyno.execution.blocks import make_run
from mydyno.execution.environments.private_environment import PrivateEnvironment
from mydyno.execution.environments.probe import Sampler
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.stored.records import RunRecord
from mydyno.servers.build import ServerBuild
from tests.support.real import SHORT_STEP, experiment_text

ARMS = """\
control = "glibc"
glibc = { allocator = "glibc" }
jemalloc = { allocator = "jemalloc" }
tcmalloc = { allocator = "tcmalloc" }
mimalloc = { allocator = "mimalloc" }
"""


def small_experiment(arms: str = ARMS, steps: str = SHORT_STEP) -> Experiment:
    """The small experiment as mydyno reads it."""
    return parse_experiment(TomlSource.parse("small.toml", experiment_text("small", arms, steps)), vocabulary())


class Unwatched:
    """Nobody follows the run."""

    def load(self, step: Step, progress: Progress) -> None:
        """A second of load has passed."""

    def sampling(self, sampler: Sampler | None) -> None:
        """The sampler was started or stopped."""


async def one_run(environment: PrivateEnvironment, arm: str, folder: Path) -> RunRecord:
    """Make one run of an arm into a new folder."""
    folder.mkdir()
    planned = PlannedRun.model_validate({"block": 1, "position": 1, "arm": arm, "environment_padding_bytes": 64})
    template = await environment.template(environment.experiment.arm(arm), print)
    return await make_run(environment, planned, environment.experiment.resolved_steps, template, folder, Unwatched())


def numbers_of(record: RunRecord) -> list[Any]:
    """Every step whose numbers a summary would use."""
    return [step for step in record.steps if record.valid and step.valid]


def build_of(environment: PrivateEnvironment) -> ServerBuild:
    """The one server that all arms of the environment run on."""
    return next(iter(environment.builds.values()))
