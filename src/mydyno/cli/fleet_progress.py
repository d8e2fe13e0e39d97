"""Progress of a study over host groups on stderr: a line for each group on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import shorten
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn

from mydyno.evaluation.progress import precision_words
from mydyno.evaluation.projection import Precision
from mydyno.language import agreed
from mydyno.visible import styled


class FleetProgress:
    """Shows what each group does. Use as a context manager."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        """The study's, once it has one."""
        self._console = Console(file=styled(sys.stderr), highlight=False)
        self._lines = Progress(
            TextColumn("{task.fields[group]}"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._blocks: dict[str, str] = {}

    def __enter__(self) -> FleetProgress:
        self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.stop()

    def kept_in(self, folder: Path) -> None:
        """What the last line names."""
        self.folder = folder

    def say(self, text: str) -> None:
        """A line of its own."""
        self._console.print(agreed(text), markup=False, soft_wrap=True)

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """A message of a group, or what it does now."""
        if lasting:
            self.say(f"{group}: {text}")
        else:
            self._show(group, " ".join(filter(None, (self._blocks.get(group), text))))

    def block_leased(self, group: str, block: int, of: int) -> None:
        """Show the block in the group's line, its time from zero."""
        self._blocks[group] = f"block {block}/{of}"
        self._show(group, f"block {block}/{of} starting the servers")
        self._lines.reset(self._tasks[group])

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        """One line a block."""
        words = [f"block {block:>2}", group, f"{made} of {of} done"]
        if precision is not None:
            words.append(precision_words(precision))
        self.say(" · ".join(words))
        self._blocks.pop(group, None)
        self._show(group, "idle")

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        """Why a group takes no blocks, and whether it is retried."""
        then = "it takes no blocks of this study" if for_good else "its block is executed again"
        self.say(f"{group} LOST: {shorten(why, 400, placeholder=' …')}; {then}")
        self._blocks.pop(group, None)
        self._show(group, "lost")

    def _show(self, group: str, text: str) -> None:
        if group not in self._tasks:
            self._tasks[group] = self._lines.add_task(text, total=None, group=group)
        else:
            self._lines.update(self._tasks[group], description=text)
