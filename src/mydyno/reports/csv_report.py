"""A table for other programs: one row per run, load level and metric.

Columns: study · block · position (in the block, from 1) · arm · copy (2 is a second copy, of the control A/A) · valid
(of this step of this run: true or false) · step · workload · connections · metric · unit · value · reasons (why it is
not valid, joined by "; ") · unadjusted (of an interleaved study: the value before it was adjusted for the host's speed;
else empty) · host_group (only of studies over several host groups: the one that executed the block). An arm that failed
at a step has one row there, without metric and value, with the reason. A value is the mean over the step's common
window, a percentile that of the whole window; units are as stored: bytes, microseconds, percent. What is not valid is
in the table too: filter on `valid`.
"""

from __future__ import annotations

import csv
import io

from mydyno.document.result import StudyResult
from mydyno.reports.formats import ReportFormat
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.stored_result import joined_reasons

COLUMNS = (
    "study", "block", "position", "arm", "copy", "valid", "step", "workload", "connections", "metric", "unit", "value",
    "reasons", "unadjusted",
)  # fmt: skip

HOST_GROUP = "host_group"
"""The last column of studies over several host groups."""


def write(folder: StudyFolder) -> str:
    """The table with its header line, RFC 4180 quoting, "\\n" line ends, rows in the order of execution."""
    result = StudyResult.load(folder)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    several = bool(result.group_of)
    table.writerow((*COLUMNS, HOST_GROUP) if several else COLUMNS)
    for run in result.runs:
        for step in result.steps:
            place = (result.summary.study, run.block, run.position, run.arm, run.copy_number)
            used = "true" if run.usable(step.id) else "false"
            load = (step.id, step.workload, step.connections)
            reasons = joined_reasons(run, step.id)
            values = run.values.get(step.id, {})
            of_host = (run.host_group,) if several else ()
            for metric, value in sorted(values.items()):
                known = result.summary.metrics.get(metric)
                before = run.unadjusted.get(step.id, {}).get(metric)
                row = (
                    metric,
                    known.unit if known else "",
                    repr(value),
                    reasons,
                    "" if before is None else repr(before),
                )
                table.writerow((*place, used, *load, *row, *of_host))
            if step.id in run.failures and not values:
                table.writerow((*place, used, *load, "", "", "", reasons, "", *of_host))
    return text.getvalue()


FORMAT = ReportFormat("csv", "one row per run, load level and metric", write)
