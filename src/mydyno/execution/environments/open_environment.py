"""Which study environment an experiment needs: one of private servers, or one for an external server."""

from __future__ import annotations

from pathlib import Path

from mydyno.execution.environments.environment import Say, StudyEnvironment
from mydyno.execution.environments.private_environment import open_private_environment
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment


async def open_environment(
    paths: HostPaths, experiment: Experiment, study: str, study_path: Path, say: Say
) -> StudyEnvironment:
    """The study environment for the experiment's server. Raises UserError and HostError before anything is started."""
    if experiment.server.dsn is None:
        return await open_private_environment(paths, experiment, study, study_path, say)
    # SSH and its cryptography take a fourth of the program's start.
    from mydyno.execution.environments.external_environment import open_external_environment

    return await open_external_environment(paths, experiment, study, study_path, say)
