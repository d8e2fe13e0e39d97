"""Each statement on an arm against the control: what is exact, times with simultaneous intervals, and plans.

The unit is the block, as everywhere: a start of every server. Of a block's visits the trimmed mean of the log ratio to
both copies of the control is taken; its variance over blocks is moderated by that of all statements
(stats/moderated.py), and is never below what the visits show by themselves. Intervals are Student's t at the error rate
divided by the number of statements, arms and metrics (Bonferroni).

A plan is one line for each table: the same plan has the same lines, whatever server explained it. From EXPLAIN
FORMAT=JSON of MySQL (both of its forms) and MariaDB, or from the rows of EXPLAIN; without estimates of rows and costs.
Servers name accesses differently, so they are kinds: scan, index scan, range, lookup, index merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from math import exp, log
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.analysis.base import Examined
from mydyno.model.stored.analyses import (
    StatementInterval,
    StatementRecord,
    StatementsOfArm,
    StatementsRecord,
    StatementVerdict,
)
from mydyno.stats.moderated import moderated
from mydyno.store.statements import STATEMENTS_FILE, ComparedStatement, Comparison, Once, read_comparison, server_name
from mydyno.store.study_folder import StudyFolder

SORTS, TEMPORARY = "sort", "temporary table"
PRIMARY = "PRIMARY"
PUSHED = ("index_condition", "pushed_index_condition")
"""A condition that the engine examines in the index, before it reads the row."""
NUMBERED = re.compile(r"\d+>$")
MADE = re.compile(r"^<(materialized_)?subquery>$")
KINDS = {
    "ALL": "scan",
    "table": "scan",
    "index": "index scan",
    "index_scan": "index scan",
    "range": "range",
    "index_range_scan": "range",
    "index_skip_scan": "range",
    "group_index_skip_scan": "range",
    "multi_range_read": "lookup",
    "const": "lookup",
    "eq_ref": "lookup",
    "ref": "lookup",
    "ref_or_null": "lookup",
    "hash_ALL": "scan",
    "index_lookup": "lookup",
    "pushed_join_ref": "lookup",
    "rows_fetched_before_execution": "lookup",
    "index_merge": "index merge",
}
"""An access by the servers' names → its kind; others keep their name."""


def steps_of(plan: Any) -> tuple[str, ...]:
    """One line for each table in the order of joins, then what is done beside; empty without a plan.

    >>> steps_of({"query_block": {"table": {"table_name": "t", "access_type": "ref", "key": "a"}}})
    ('t: lookup by a',)
    """
    tables, beside = [], set()
    for kind, line in _walk(plan):
        if kind == "table":
            tables.append(line)
        else:
            beside.add(line)
    return (*tables, *sorted(beside))


def is_same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether both read the same tables in the same order by the same accesses.

    Sorts and temporary tables are stated by each server in its own way, and are not compared.
    """
    beside = {SORTS, TEMPORARY}
    return [line for line in one if line not in beside] == [line for line in other if line not in beside]


def _walk(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for one in node:
            yield from _walk(one)
        return
    if not isinstance(node, dict):
        return
    if "select_type" in node and "table" in node and not isinstance(node["table"], dict):
        yield from _row(node)
        return
    access = node.get("access_type")
    if node.get("using_filesort") is True or "filesort" in node or access == "sort":
        yield "beside", SORTS
    if node.get("using_temporary_table") is True or "temporary_table" in node or access == "temp_table_aggregate":
        yield "beside", TEMPORARY
    if isinstance(node.get("table_name"), str) and node["table_name"] != "<temporary>":
        how = node.get("index_access_type") or access
        is_pushed = any(node.get(name) for name in PUSHED)
        yield "table", _line(node["table_name"], how, node.get("key") or node.get("index_name"), is_pushed)
    for value in node.values():
        yield from _walk(value)


def _row(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A row of EXPLAIN without JSON."""
    extra = str(row.get("Extra") or "")
    if row["table"] is not None:
        yield "table", _line(str(row["table"]), row.get("type"), row.get("key"), "index condition" in extra)
    if "filesort" in extra:
        yield "beside", SORTS
    if "temporary" in extra:
        yield "beside", TEMPORARY


def _line(table: str, access: Any, key: Any, is_pushed: bool) -> str:
    table = MADE.sub("<subquery>", NUMBERED.sub(">", table))
    kind = KINDS.get(str(access), str(access or "?"))
    if kind == "index scan" and key == PRIMARY:
        return f"{table}: scan"  # the primary key of InnoDB is the table
    line = f"{table}: {kind} by {key}" if key else f"{table}: {kind}"
    return f"{line} with an index condition" if is_pushed else line


Array = NDArray[np.float64]
TRIMMED = 0.2
"""Share of the visits that is left out on either side: an interrupted one lasts many times as long."""
FEWEST_BLOCKS = 2
READS = (
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_last",
    "Handler_read_next",
    "Handler_read_prev",
    "Handler_read_rnd",
    "Handler_read_rnd_next",
)
METRICS = ("service", "cpu")
MOST_EXECUTED = 6000
"""Characters of an account of an execution."""
MOST_APART = 40
"""Characters of a text from where it parts from those with the same label."""
MOST_MESSAGE = 160
"""Characters of an error's text."""


@dataclass(frozen=True)
class Measured:
    """One contrast of one statement and metric."""

    blocks: Array
    """Log ratio of each block."""
    within: float
    """Variance of their mean that the visits show."""


def analyse(study: Examined) -> StatementsRecord | None:
    """Every statement of every arm; None where statements are not compared."""
    if not study.experiment.compares_statements:
        return None
    folder = StudyFolder(study.path)
    blocks = sorted({run.block for run in study.runs})
    found = [one for block in blocks if (one := read_comparison(folder.block_path(block) / STATEMENTS_FILE))]
    if not found:
        return None
    control = study.experiment.control
    arms = [arm.name for arm in study.experiment.arms if arm.name != control]
    margin = study.experiment.verdict.margin_of(study.experiment.verdict.leading)
    digests = list(dict.fromkeys(one.digest for comparison in found for one in comparison.statements))
    by_digest = [{one.digest: one for one in comparison.statements} for comparison in found]
    copies = [server_name(control, 1), server_name(control, 2)]
    alpha = study.alpha_of_causes
    every = {arm: _intervals(found, by_digest, digests, server_name(arm, 1), copies, alpha, len(arms)) for arm in arms}
    same = _intervals(found, by_digest, digests, copies[1], copies[:1], alpha, 1)
    unlike = {digest for (digest, _), one in same.items() if one.is_beyond}
    made = tuple(
        _of_arm(
            arm, control, [of for of in by_digest if of], digests, every[arm], unlike, margin, study.alarm,
            sum({server_name(arm, 1), *copies} <= set(one.servers) for one in found),
        )
        for arm in arms
    )  # fmt: skip
    return StatementsRecord(
        arms=made,
        blocks=len(found),
        margin=margin,
        executions=sum(sum(one.executions) for comparison in found for one in comparison.statements),
        left_out=dict(found[0].left_out),
        unlike_controls=len(unlike),
    )


def _intervals(
    found: Sequence[Comparison],
    by_digest: Sequence[Mapping[str, ComparedStatement]],
    digests: Sequence[str],
    server: str,
    controls: Sequence[str],
    alpha: float | None,
    arms: int,
) -> dict[tuple[str, str], StatementInterval]:
    """{(digest, metric): a server against the mean of others}, of those that were visited in every block that has these
    servers.
    """
    blocks = [(one, of) for one, of in zip(found, by_digest, strict=True) if {server, *controls} <= set(one.servers)]
    measured: dict[tuple[str, str], Measured] = {}
    times: dict[tuple[str, str], tuple[float, float]] = {}
    for digest in digests:
        for metric in METRICS:
            of_blocks = [_contrast(one, of.get(digest), metric, server, controls) for one, of in blocks]
            usable = [one for one in of_blocks if one is not None]
            if usable and len(usable) == len(of_blocks):
                within = sum(one[1] for one in usable) / len(usable) ** 2
                measured[digest, metric] = Measured(np.array([one[0] for one in usable]), within)
                times[digest, metric] = (
                    exp(np.mean([one[2] for one in usable])),
                    exp(np.mean([one[3] for one in usable])),
                )
    half = _half_widths(measured, len(blocks), None if alpha is None else alpha / max(1, len(measured) * arms))
    made = {}
    for key, one in measured.items():
        mean = float(np.mean(one.blocks))
        width = half.get(key)
        made[key] = StatementInterval(
            control_us=times[key][0],
            arm_us=times[key][1],
            ratio=exp(mean),
            ci_low=None if width is None else exp(max(-50.0, mean - width)),
            ci_high=None if width is None else exp(min(50.0, mean + width)),
        )
    return made


def _half_widths(
    measured: Mapping[tuple[str, str], Measured], blocks: int, alpha: float | None
) -> dict[tuple[str, str], float]:
    """Of the mean log ratio; empty where nothing is decided."""
    if alpha is None or blocks < FEWEST_BLOCKS:
        return {}
    found = {}
    for metric in METRICS:
        own = {key: one for key, one in measured.items() if key[1] == metric}
        if not own:
            continue
        variances = np.array([np.var(one.blocks, ddof=1) for one in own.values()])
        of_all = moderated(variances, blocks - 1)
        quantile = float(scipy.stats.t.ppf(1 - alpha / 2, of_all.df))
        for (key, one), variance in zip(own.items(), of_all.variances, strict=True):
            found[key] = quantile * float(np.sqrt(max(variance / blocks, one.within)))
    return found


def _contrast(
    comparison: Comparison, one: ComparedStatement | None, metric: str, server: str, controls: Sequence[str]
) -> tuple[float, float, float, float] | None:
    """(trimmed mean log ratio, its variance, mean log of the controls, of the server) in one block; None: not known."""
    logs = None if one is None or one.not_repeated else one.logs(metric)
    if logs is None:
        return None
    of_control = logs[:, [comparison.servers.index(name) for name in controls]].mean(axis=1)
    of_server = logs[:, comparison.servers.index(server)]
    ratio, variance = _trimmed(of_server - of_control)
    base = _trimmed(of_control)[0]
    return ratio, variance, base, base + ratio


def _trimmed(values: Array) -> tuple[float, float]:
    """The trimmed mean and its variance (Yuen 1974)."""
    count = len(values)
    if count == 1:
        return float(values[0]), 0.0
    cut = int(TRIMMED * count)
    ordered = np.sort(values)
    kept = ordered[cut : count - cut]
    winsorised = np.clip(ordered, kept[0], kept[-1])
    squares = float(np.var(winsorised, ddof=1)) * (count - 1)
    return float(np.mean(kept)), squares / (len(kept) * max(1, len(kept) - 1))


def _of_arm(
    arm: str,
    control: str,
    by_digest: Sequence[Mapping[str, ComparedStatement]],
    digests: Sequence[str],
    intervals: Mapping[tuple[str, str], StatementInterval],
    unlike: set[str],
    margin: float,
    alarm: bool,
    blocks: int,
) -> StatementsOfArm:
    records = []
    every = {digest: of[digest] for of in reversed(by_digest) for digest in of}
    labels = _labels(every)
    total_us = sum(one.control_us * every[digest].count for (digest, of), one in intervals.items() if of == "service")
    for digest in digests:
        own = [of[digest] for of in by_digest if digest in of]
        one = own[0]
        exact = _exact(own, server_name(arm, 1), [server_name(control, copy) for copy in (1, 2)])
        service, cpu = (_known(intervals.get((digest, metric)), digest in unlike) for metric in METRICS)
        verdict, why = exact.verdict, exact.why
        if verdict is None:
            verdict, why = _verdict(service, cpu, None if alarm else digest in unlike, margin, one)
        shows_plans = exact.plan_changed or verdict in ("slower", "faster")
        records.append(
            StatementRecord.like(
                exact,
                digest=digest,
                label=labels[digest],
                text=one.text,
                example=one.examples[0] if one.examples else "",
                count=one.count,
                writes=one.writes,
                verdict=verdict,
                why=why,
                service=service,
                cpu=cpu,
                control_share=service.control_us * one.count / total_us if service and total_us else None,
                added_s=(service.arm_us - service.control_us) * one.count / 1e6 if service else None,
                plans=exact.plans if shows_plans else ((), ()),
                executed=_executed(own, server_name(control, 1), server_name(arm, 1))
                if verdict == "slower"
                else ("", ""),
            )
        )
    records.sort(key=lambda one: (ORDER.index(one.verdict), -(one.added_s or 0.0)))
    return StatementsOfArm(arm=arm, control=control, statements=tuple(records), blocks=blocks)


def _known(one: StatementInterval | None, is_unlike: bool) -> StatementInterval | None:
    """Without its interval where the control's two copies differ."""
    return one.model_copy(update={"ci_low": None, "ci_high": None}) if one and is_unlike else one


def _executed(blocks: Sequence[ComparedStatement], control: str, arm: str) -> tuple[str, str]:
    """Of the first block that has it."""
    found = next((one.executed for one in blocks if one.executed), {})
    return found.get(control, "")[:MOST_EXECUTED], found.get(arm, "")[:MOST_EXECUTED]


ORDER: tuple[StatementVerdict, ...] = ("fails", "other_rows", "slower", "faster", "open", "equivalent", "not_compared")


def _verdict(
    service: StatementInterval | None,
    cpu: StatementInterval | None,
    unlike: bool | None,
    margin: float,
    one: ComparedStatement,
) -> tuple[StatementVerdict, str]:
    """By either metric: CPU time where waits are noise, response time where the statement waits."""
    if service is None:
        if one.not_repeated:
            return "not_compared", one.not_repeated
        return "open", "the time was too short to repeat it in every block"
    if unlike is None:
        return "open", "the control's two copies differ in all statements together"
    if unlike:
        return "open", "the control's two copies differ"
    known = [each for each in (service, cpu) if each is not None and each.ci_low is not None]
    inside = [_within(each, margin) for each in known]
    beyond = [each for each, within in zip(known, inside, strict=True) if each.is_beyond and not within]
    if beyond:
        slower = {each.ratio > 1.0 for each in beyond}
        if len(slower) == 1:
            return ("slower" if slower.pop() else "faster"), ""
        return "open", "response time and CPU time changed in opposite directions"
    return ("equivalent", "") if any(inside) else ("open", "")


def _within(one: StatementInterval, margin: float) -> bool:
    return bool(
        one.ci_low is not None
        and one.ci_high is not None
        and log(one.ci_low) > -log(1 + margin)
        and log(one.ci_high) < log(1 + margin)
    )


@dataclass(frozen=True)
class Exact:
    """What needs no repetition."""

    verdict: StatementVerdict | None
    why: str
    plan_changed: bool
    plans: tuple[tuple[str, ...], tuple[str, ...]]
    counters: dict[str, tuple[int, int]]
    rows_examined: tuple[int, int] | None
    notes: tuple[str, ...] = ()


def _labels(statements: Mapping[str, ComparedStatement]) -> dict[str, str]:
    """{digest: label}; of those that are shortened to the same one, with the place where their texts part."""
    alike: dict[str, list[str]] = {}
    for digest, one in statements.items():
        alike.setdefault(one.label, []).append(digest)
    found = {}
    for label, digests in alike.items():
        words = {digest: statements[digest].text.split() for digest in digests}
        common = sum(1 for _ in takewhile(lambda at: len(set(at)) == 1, zip(*words.values(), strict=False)))
        for digest in digests:
            apart = " ".join(words[digest][common:])[:MOST_APART]
            found[digest] = label if len(digests) == 1 else f"{label.removesuffix('…')} … {apart}"
    return found


def _exact(blocks: Sequence[ComparedStatement], arm: str, controls: Sequence[str]) -> Exact:
    """Of every text in every block; what differs between servers of the control already is no difference of the arm.

    A plan changed if the arm has it in no block with any of the control's.
    """
    verdict: StatementVerdict | None = None
    why = ""
    counters: dict[str, tuple[int, int]] = {}
    rows: tuple[int, int] | None = None
    notes: dict[str, None] = {}
    plans: dict[int, tuple[list[tuple[str, ...]], list[tuple[str, ...]]]] = {}
    for number, of_text in ((number, of_text) for one in blocks for number, of_text in enumerate(one.once)):
        olds = [of_text[name] for name in controls if name in of_text]
        if arm not in of_text or not olds:
            continue
        new, old = of_text[arm], olds[0]
        found = _result(new, old)
        is_worse = found[0] is not None and (verdict is None or ORDER.index(found[0]) < ORDER.index(verdict))
        if is_worse and all(_result(other, old) == (None, "") or (other.error and old.error) for other in olds[1:]):
            verdict, why = found
        notes |= dict.fromkeys(_notes(new, olds))
        of_control, of_arm = plans.setdefault(number, ([], []))
        of_control += filter(None, (steps_of(other.plan) for other in olds))
        of_arm += filter(None, [steps_of(new.plan)])
        if rows is None and (old.counters or new.counters):
            rows = (_reads(old), _reads(new))
            names = sorted({*old.counters, *new.counters})
            pairs = {name: (old.counters.get(name, 0), new.counters.get(name, 0)) for name in names}
            counters = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    apart = [both for both in plans.values() if all(both) and not any(is_same(*pair) for pair in product(*both))]
    shown = next((both for both in (*apart, *plans.values()) if all(both)), ([()], [()]))
    return Exact(verdict, why, bool(apart), (shown[0][0], shown[1][0]), counters, rows, tuple(notes))


def _notes(new: Once, olds: Sequence[Once]) -> Iterator[str]:
    """Warnings that no server of the control raises, and columns that have another type."""
    if new.error or any(old.error for old in olds):
        return
    known = {code for old in olds for code, _ in old.warnings}
    for code, text in new.warnings:
        if code not in known:
            yield f"warning {code}: {_shortened(text)}"
    for (name, kind), (_, former) in zip(new.columns, olds[0].columns, strict=False):
        if kind != former:
            yield f"column {name} is {kind}, not {former}"


def _reads(one: Once) -> int:
    return sum(one.counters.get(name, 0) for name in READS)


def _result(new: Once, old: Once) -> tuple[StatementVerdict | None, str]:
    """A difference in the result; None: there is none."""
    if old.error or new.error:
        if old.error and new.error:
            return "not_compared", f"it fails with the control too: {_error(old)}"
        return ("fails", _error(new)) if new.error else ("not_compared", f"it fails with the control: {_error(old)}")
    if new.affected_rows != old.affected_rows:
        return "other_rows", f"{old.affected_rows:,} rows changed, now {new.affected_rows:,}"
    varies = new.varies or old.varies
    if varies != "number" and new.rows != old.rows:
        return "other_rows", f"{old.rows:,} rows, now {new.rows:,}"
    if varies in ("", "order") and new.checksum != old.checksum:
        return "other_rows", "its rows have other values"
    if not varies and new.order != old.order:
        return "other_rows", "the rows come in another order"
    return None, ""


def _error(one: Once) -> str:
    return f"error {one.error}: {_shortened(one.message)}"


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_MESSAGE else f"{text[:MOST_MESSAGE]}…"
