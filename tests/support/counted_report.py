"""A saved interleaved study with what was counted apart, and an effect on throughput that it may accompany."""

from __future__ import annotations

import io
import re
from pathlib import Path

from mydyno.analysis.candidates import candidates_of
from mydyno.model.stored.counted import KernelRecord, WaitsRecord
from mydyno.model.stored.summary import CostRecord, CostsRecord
from mydyno.reports.formats import print_answer
from mydyno.reports.page import render_page
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_interleaved_folder import build

STEP = "oltp_read_only-64"
COSTS = CostsRecord(
    costs=(CostRecord(cost="fsyncs", step=STEP, arm="jemalloc", control="glibc", control_value=0.1, arm_value=0.1),)
)


def counted_folder(
    path: Path,
    verdict: str = "lower",
    costs: CostsRecord = COSTS,
    waits: WaitsRecord | None = None,
    kernel: KernelRecord | None = None,
) -> StudyFolder:
    """The study; jemalloc has 0.8 of the throughput if the verdict is lower, else 1.25."""
    made = build(path)
    summary = made.summary()
    assert summary is not None
    changed = {"verdict": verdict, "ratio": 0.8 if verdict == "lower" else 1.25}
    effects = tuple(
        one.model_copy(update=changed) if (one.metric, one.arm) == ("qps", "jemalloc") else one
        for one in summary.effects
    )
    found = {"waits": waits, "kernel": kernel, "effects": effects, "costs": costs}
    candidates = candidates_of(effects, costs, None, waits, kernel)
    made.write_summary(summary.model_copy(update={**found, "candidates": candidates}))
    return made


def page(made: StudyFolder) -> str:
    """report.html, each white space one space."""
    return " ".join(re.sub(r"[\u00a0\u202f]", " ", render_page(made)).split())


def printed(made: StudyFolder) -> str:
    """What the terminal shows, in one line."""
    out = io.StringIO()
    print_answer(made, out, 100)
    return " ".join(out.getvalue().split())
