"""--on and --on-option of `run` and `plan`: the job of a batch system."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from mydyno.cli.streams import STARTED_AS
from mydyno.errors import UserError
from mydyno.model.definition.batch import BatchJob, BatchKind
from mydyno.model.definition.problems import with_guess


def batch_job(
    on: str | None, options: Sequence[str] | None, hosts: str | None, time: str | None, data: Path | None
) -> BatchJob | None:
    """What --on asks for; None without it. Raises UserError for it with what excludes it."""
    if on is None:
        if options:
            raise UserError("--on-option needs --on", "--on slurm or --on kubernetes")
        return None
    kind = next((one for one in get_args(BatchKind) if one == on), None)
    if kind is None:
        raise UserError(f"--on {on}: unknown; allowed: slurm, kubernetes", with_guess("", on, get_args(BatchKind)))
    if hosts is not None:
        raise UserError("--on and --hosts exclude each other", f"{on} chooses the nodes")
    if time is not None:
        raise UserError(
            "--on and --time exclude each other", "there are no interim analyses between tasks: use --blocks N"
        )
    if data is not None and not data.is_absolute():
        raise UserError(f"--data {data}: with --on only an absolute path", "it is the same on each node")
    job = BatchJob(
        system=kind, program="mydyno", data=None if data is None else str(data), options=tuple(options or ())
    )
    program = job.option("program") or (_program() if on == "slurm" else job.program)
    return job.model_copy(update={"program": program})


def _program() -> str:
    """How nodes that share this host's folders start the same program."""
    started = os.environ.get(STARTED_AS)
    if not started:
        return shlex.join([sys.executable, "-m", "mydyno.cli"])
    return shlex.quote(str(Path(started).absolute())) if "/" in started else shlex.quote(started)
