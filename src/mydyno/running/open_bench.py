"""Which workbench an experiment needs: one of private servers, or one for an external server."""

from __future__ import annotations

from pathlib import Path

from mydyno.hosts.settings import Settings
from mydyno.model.experiment import Experiment
from mydyno.running.bench import Bench, Say
from mydyno.running.external_bench import open_external_bench
from mydyno.running.workbench import open_workbench


async def open_bench(settings: Settings, experiment: Experiment, study: str, study_path: Path, say: Say) -> Bench:
    """The workbench for the experiment's server. Raises UserError and HostError before anything is started."""
    if experiment.server.dsn is None:
        return await open_workbench(settings, experiment, study, study_path, say)
    return await open_external_bench(settings, experiment, study, study_path, say)
