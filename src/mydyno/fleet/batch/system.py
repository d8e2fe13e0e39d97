"""What a study needs of a batch system: to submit a task for each block, the states of the tasks, and their logs.

The batch system decides where and when; each task is `mydyno block`, which writes its block into the study's folder.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from mydyno.errors import HostError, UserError
from mydyno.fleet.messages import Said, parse_message
from mydyno.hosts.commands import report_start
from mydyno.model.definition.host_groups import BatchJob

LABEL_CHARACTERS = 44
"""With what is put before and after it at most 63 (RFC 1123)."""
ANSWER_S = 60.0
"""For a command of the batch system."""
SHOWN_LINES = 5
"""The last lines of a log that a person is shown."""


@dataclass(frozen=True)
class Task:
    """The latest attempt at a block."""

    block: int
    phase: Literal["waiting", "running", "succeeded", "failed"]
    state: str
    """By the batch system's name for it, with its reason."""
    node: str = ""
    log: str = ""
    """What BatchSystem.log needs."""
    again: bool = True
    """Whether another attempt may succeed: not for one that was cancelled, or that found a mistake of the user's."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.phase in ("succeeded", "failed")


class BatchSystem(Protocol):
    """Slurm or Kubernetes, for the blocks of one study. Methods raise HostError where it does not answer or refuses."""

    title: str
    attempts: int
    """How often a block is submitted, at most, while a controller watches."""

    def check(self) -> None:
        """Raises HostError without the client programs, UserError for options."""

    def text(self, blocks: Sequence[int]) -> str:
        """The job of these blocks."""

    async def submit(self, blocks: Sequence[int], avoid: Collection[str]) -> str:
        """Submit a job, where possible not to the nodes `avoid`; what it is called."""

    async def tasks(self, blocks: Collection[int]) -> dict[int, Task]:
        """The latest task of each of these blocks that the batch system knows."""

    async def log(self, task: Task) -> str:
        """The output of a task, or its end; empty if there is none."""

    def cancel_command(self) -> str:
        """What ends all tasks of the study."""


def label_of(study: str) -> str:
    """A name that Kubernetes (RFC 1123) and Slurm accept; of a long one the end, which has the time."""
    return re.sub(r"[^a-z0-9]+", "-", study.lower())[-LABEL_CHARACTERS:].strip("-")


def check_submitter(title: str, job: BatchJob, *programs: str) -> None:
    """Raises UserError for a number that is none, HostError for the first program that is not in PATH."""
    parallel = job.option("parallel")
    if parallel is not None and not parallel.isdecimal():
        raise UserError(f"--on-option parallel={parallel}: not a number", "the most blocks at the same time")
    for program in programs:
        if shutil.which(program) is None:
            raise HostError(
                f"--on {title.lower()}: there is no {program} in PATH",
                f"run mydyno on a host from which you submit jobs to {title}",
            )


async def output_of(*command: str) -> str:
    """What a client program prints; it is not in this program's process group, which Ctrl-C ends. Raises HostError."""
    started = report_start(command)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(ANSWER_S):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        started.ended(124)
        raise HostError(f"{command[0]} did not answer within {ANSWER_S:.0f} s") from None
    started.ended(process.returncode or 0)
    if process.returncode:
        words = errors.decode(errors="replace").strip() or f"exit code {process.returncode}"
        raise HostError(words if words.startswith(command[0]) else f"{command[0]}: {words}")
    return output.decode(errors="replace")


def last_lines(log: str) -> list[str]:
    """The last lines for a person of what `mydyno block` wrote on both of its streams."""
    found = []
    for line in log.splitlines():
        try:
            message = parse_message(line)
        except ValueError:
            found.append(line)
        else:
            found += [message.text] if isinstance(message, Said) else []
    return [line for line in found if line.strip()][-SHOWN_LINES:]
