"""How the blocks of a study are executed by a batch system."""

from __future__ import annotations

from typing import Literal

from mydyno.model.definition.experiment import Frozen

BatchKind = Literal["slurm", "kubernetes"]


class BatchJob(Frozen):
    """The job of a study: one task for each block."""

    system: BatchKind
    name: str = "mydyno"
    """Of the job, by which its tasks are found again."""
    limit_s: int = 0
    """Time limit of a task, in whole minutes."""
    program: str
    """How nodes start mydyno, for a shell."""
    data: str | None = None
    """The folder of templates and data directories on a node; None: MYDYNO_DATA there, else a temporary one."""
    options: tuple[str, ...] = ()
    """KEY=VALUE, or KEY, as the user gave them."""

    def option(self, key: str) -> str | None:
        """The value of an option; of several the last one."""
        return next((one.partition("=")[2] for one in reversed(self.options) if one.partition("=")[0] == key), None)
