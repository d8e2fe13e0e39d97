"""Slurm: an array job, one task for each block, each alone on its node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mydyno.errors import HostError, UserError
from mydyno.files.atomic import write_text
from mydyno.files.tree import end_of
from mydyno.fleet.batch.system import Task, check_submitter, output_of
from mydyno.model.definition.host_groups import BatchJob
from mydyno.model.definition.quantities import numbers_of, ranges_of

WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
RUNNING = frozenset({
    "RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT", "POWER_UP_NODE",
})  # fmt: skip
SUCCEEDED = frozenset({"COMPLETED", "COMPLETING"})
"""The other states are those of a task that has failed; squeue(1) lists all of them."""
FORMAT = "ArrayJobID:|,ArrayTaskID:|,State:|,NodeList:|,Reason:|,exit_code:|"
OWN = frozenset({"parallel", "program"})
"""Options that are not those of sbatch."""
_ARRAY = re.compile(r"^#SBATCH --array=([\d,-]+)", re.MULTILINE)
_OPTION = re.compile(r"[a-z][a-z-]*(=[^\n]+)?")


class Slurm:
    """The tasks of one study. squeue knows those that ended some minutes ago, sacct all where accounting is enabled."""

    title = "Slurm"
    attempts = 3

    def __init__(self, study: Path, job: BatchJob) -> None:
        self._study = study
        self._job = job

    def check(self) -> None:
        """The programs, and what an option may look like."""
        for option in self._job.options:
            if not _OPTION.fullmatch(option):
                raise UserError(
                    f"--on-option {option}: not a long option of sbatch without its dashes",
                    "for example --on-option partition=bench",
                )
        check_submitter(self.title, self._job, "sbatch", "squeue")

    def text(self, blocks: Sequence[int]) -> str:
        """The script; what the user asks for comes last and is in force.

        Slurm does not requeue tasks: a lost one could still run, and Slurm does not know which blocks are there.
        """
        minutes = self._job.limit_s // 60
        study, parallel = shlex.quote(str(self._study)), self._job.option("parallel")
        asked = "".join(f"#SBATCH --{option}\n" for option in self._job.options if option.partition("=")[0] not in OWN)
        data = '"${MYDYNO_DATA:-${SLURM_TMPDIR:-/tmp}/mydyno-data-$(id -un)}"'
        return f"""\
#!/bin/bash
#SBATCH --job-name={self._job.name}
#SBATCH --array={ranges_of(blocks)}{f"%{parallel}" if parallel else ""}
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --time={minutes // 60:02d}:{minutes % 60:02d}:00
#SBATCH --signal=B:TERM@90
#SBATCH --output="{self._study}/slurm-%A_%a.log"
{asked}# On a disk of the node: it is measured, and must not be shared with other nodes.
export MYDYNO_DATA={data if self._job.data is None else shlex.quote(self._job.data)}
exec {self._job.program} block {study} --block "$SLURM_ARRAY_TASK_ID" --group "$SLURMD_NODENAME"
"""

    async def submit(self, blocks: Sequence[int], avoid: Collection[str]) -> str:
        """Slurm refuses a job for which the other nodes do not suffice: then all may be used."""
        script = self._study / "slurm.sh"
        write_text(script, self.text(blocks))
        job = ""
        if avoid:
            with suppress(HostError):
                job = await output_of("sbatch", "--parsable", f"--exclude={','.join(sorted(avoid))}", str(script))
        job = job or await output_of("sbatch", "--parsable", str(script))
        job = job.strip().partition(";")[0]
        script.rename(self._script_of(job))
        return f"job {job}"

    async def tasks(self, blocks: Collection[int]) -> dict[int, Task]:
        """From squeue, and from sacct what squeue has forgotten."""
        mine = f"--name={self._job.name}"
        queue = ("squeue", "--noheader", "--array", "--states=all", "--me", mine, f"--Format={FORMAT}")
        found = self._latest(self._of_queue(await output_of(*queue)))
        if set(blocks) - found.keys():
            accounts = ("sacct", "--noheader", "--allocations", "--parsable2", mine, "--starttime=now-30days")
            with suppress(HostError, OSError):  # there is no accounting
                text = await output_of(*accounts, "--format=JobID,State,NodeList,ExitCode")
                found = self._latest(_of_accounts(text)) | found
        return found

    async def log(self, task: Task) -> str:
        """From the study's folder."""
        return end_of(Path(task.log))

    def cancel_command(self) -> str:
        """By the name, which no other study has."""
        return f"scancel --name={self._job.name}"

    def _script_of(self, job: str) -> Path:
        return self._study / f"slurm-{job}.sh"

    def _latest(self, found: Iterable[tuple[int, int, str, str, str]]) -> dict[int, Task]:
        tasks = {}
        for job, block, state, node, why in sorted(found):
            tasks[block] = Task(
                block,
                "waiting" if state in WAITING else "running" if state in RUNNING else
                "succeeded" if state in SUCCEEDED else "failed",
                f"{state} ({why})" if why else state,
                node,
                f"{self._study}/slurm-{job}_{block}.log",
                state != "CANCELLED" and not why.endswith("exit code 2"),
            )  # fmt: skip
        return tasks

    def _of_queue(self, text: str) -> list[tuple[int, int, str, str, str]]:
        """(job, block, state, node, why) of each task; an exit code is a status of wait(2).

        Tasks that are cancelled before they begin are one line together, without their numbers.
        """
        found, together = [], []
        for line in text.splitlines():
            job, block, state, node, reason, status = (part.strip() for part in line.split("|")[:6])
            why = _why(reason, int(status) >> 8, int(status) & 127)
            if block == "N/A":
                together.append((job, state, node, why))
            else:
                found.append((int(job), int(block), state, node, why))
        alone = {(job, block) for job, block, *_ in found}
        for job, state, node, why in together:
            blocks = _ARRAY.search(end_of(self._script_of(job)))
            numbers = numbers_of(blocks[1]) if blocks else set()
            found += [(int(job), block, state, node, why) for block in numbers if (int(job), block) not in alone]
        return found


def _of_accounts(text: str) -> Iterator[tuple[int, int, str, str, str]]:
    """As _of_queue; tasks that have not begun are one line together, with their numbers."""
    for line in text.splitlines():
        name, state, node, status = line.split("|")
        job, _, blocks = name.partition("_")
        code, _, signal = status.partition(":")
        for block in numbers_of(blocks.strip("[]").partition("%")[0]):
            yield (
                int(job),
                block,
                state.partition(" ")[0],
                node.replace("None assigned", ""),
                _why("None", int(code), int(signal)),
            )


def _why(reason: str, code: int, signal: int) -> str:
    """Why a task waits or has failed; empty if it does neither."""
    words = [reason] if reason not in ("None", "NonZeroExitCode") else []
    words += [f"signal {signal}"] if signal else [f"exit code {code}"] if code else []
    return ", ".join(words)
