"""Records of a made-up study of `changed` against `base`, in which something was counted in slices of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.analysis.base import Examined
from mydyno.model.definition.experiment import ArmSpec, DesignSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.stored.counted import CountedTotals
from mydyno.model.stored.records import CountFacts, RunRecord, SliceRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.store.samples import CountedKind, totals_file, write_totals

LOAD, STEP = StepSpec(workload="oltp_read_write", connections=(8,)), "oltp_read_write-8"
COST = 0.9
"""Throughput of slices in which something is counted, relative to the measured ones."""


@dataclass
class CountedStudy:
    """What results are made of."""

    experiment: Experiment
    runs: list[RunRecord] = field(default_factory=list)
    summaries: list[RunSummary] = field(default_factory=list)
    slices: list[SliceRecord] = field(default_factory=list)
    apart: list[SliceRecord] = field(default_factory=list)

    def examined(self, folder: Path, file: str, alpha: float | None) -> Examined:
        """As an analysis of what is in this file sees it."""
        return Examined(
            experiment=self.experiment, runs=self.summaries, alpha=0.05, slices=self.slices, path=folder,
            records=self.runs, apart={file: self.apart}, alpha_of_causes=alpha,
        )  # fmt: skip


def counted_study(
    folder: Path,
    kind: CountedKind,
    totals: Callable[[str, int], CountedTotals],
    blocks: int = 6,
    load: StepSpec = LOAD,
) -> CountedStudy:
    """A study of so many blocks. `totals`: (arm, copy) → the counts of one run, which are written to the folder."""
    experiment = Experiment(
        name=kind,
        question="What does the server do?",
        server=ServerSpec(name="mariadb-10.11"),
        control="base",
        arms=(ArmSpec(name="base"), ArmSpec(name="changed", treatments={"variables": {"innodb_io_capacity": 1}})),
        steps=(load,),
        design=DesignSpec(kind="interleaved", blocks=blocks),
    )
    made, step = CountedStudy(experiment), experiment.resolved_steps[0].id
    for block in range(1, blocks + 1):
        for arm, number in (("base", 1), ("base", 2), ("changed", 1)):
            of = f"blocks/{block:02d}/{arm}.{number}"
            found = totals(arm, number)
            write_totals(folder / of / totals_file(kind, step), found)
            facts = CountFacts(step=step, file=totals_file(kind, step), slices=1, transactions=found.transactions)
            place = {"block": block, "position": number, "arm": arm, "copy": number, "folder": of}
            counted = {kind: (facts,)}
            made.runs.append(RunRecord(**place, **counted, started_unix_ns=1, ended_unix_ns=2, valid=True))
            made.summaries.append(RunSummary(**place, valid=True))
            for cycle, share in ((1, 1.0), (1, COST), (2, 1.0)):
                one = SliceRecord(
                    block=block, step=step, cycle=cycle, position=1, arm=arm, copy=number, started_unix_ns=1,
                    length_s=1.0, transactions=round(1000 * share), profiled=share < 1.0,
                    planned=1000 if load.rate else 0,
                )  # fmt: skip
                (made.apart if one.profiled else made.slices).append(one)
    return made
