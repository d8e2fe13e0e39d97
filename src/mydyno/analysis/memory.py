"""The server's memory over a whole run, if arms change how it is managed: allocators, huge pages.

Medians over the runs that count, of each run's first and last sample: resident, proportional, on huge pages, reserved
addresses. The spread of the arms at the session's end is study 3's figure. Then its parts after the last step, by the
kernel's smaps and by the allocator's own figures (treatments/allocator_memory.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mydyno.analysis.base import Analysis
from mydyno.document.parts import Cell, Note, Part, Table, glyph
from mydyno.document.result import StudyResult
from mydyno.model.stored.summary import RunSummary
from mydyno.store.samples import file_names, reading
from mydyno.wording.numbers import NONE, display_unit, percent

TREATMENTS = ("allocator", "allocator_options", "huge_pages")
COLUMNS = (
    ("server_rss_bytes", "resident at the end"),
    ("server_pss_bytes", "proportional (PSS)"),
    ("server_anonymous_huge_bytes", "on transparent huge pages"),
    ("server_hugetlb_bytes", "on reserved huge pages"),
    ("server_vsize_bytes", "addresses (VSIZE)"),
)
Facts = Mapping[str, float]
"""Of the evidence that an allocator gives after the load."""
LATEST_NS = 10_000_000_000
"""How long before a run's last sample a metric's own last one may lie."""


@dataclass(frozen=True)
class Session:
    """One metric over one run, bytes: its first sample, its last, its greatest."""

    first: float
    last: float
    greatest: float


def part(result: StudyResult) -> Part | None:
    """The section; None if no arm sets how memory is managed, or runs have several servers."""
    arms = result.study.experiment.arms
    if not any(name in arm.treatments for arm in arms for name in TREATMENTS):
        return None
    sessions = _sessions({path: run for path, run in result.samples.items() if run.valid})
    of_arm = {
        arm: {metric: found for metric, _ in COLUMNS if (found := sessions.get((arm, metric)))}
        for arm in result.styles
        if (arm, "server_rss_bytes") in sessions
    }
    if len(of_arm) < 2:
        return None
    kinds, intro = _kinds_table(result), _intro(of_arm)
    return Part(
        id="memory", heading="Memory of the server", folded=True, says=intro.partition(":")[0],
        body=[
            Note(intro, "intro"), _table(result, of_arm), kinds,
            *map(Note, _untold(result) if kinds else ()),
        ],
    )  # fmt: skip


def _sessions(files: Mapping[Path, RunSummary]) -> dict[tuple[str, str], list[Session]]:
    """{(arm, metric): one a run}. Empty if a run has several servers."""
    if not files:
        return {}
    # A resident size of 0 is that of a process that ended; on huge pages there may be nothing.
    query = """
        select filename, scope, metric, arg_min(value, unix_ns), arg_max(value, unix_ns), max(value), max(unix_ns)
        from read_parquet(?, filename = true)
        where scope like 'instance:%' and list_contains(?, metric) and isfinite(value)
        and (value > 0 or metric like '%huge%') group by all"""
    with reading(*files) as connection:
        names = [metric for metric, _ in COLUMNS]
        rows = connection.execute(query, [file_names(*files), names]).fetchall()
    if any(scope != "instance:1" for _, scope, *_ in rows):
        return {}
    found: dict[tuple[str, str], list[Session]] = {}
    by_name = {str(path): run for path, run in files.items()}
    ended_ns = {name: last_ns for name, _, metric, *_, last_ns in rows if metric == "server_rss_bytes"}
    for name, _, metric, first, last, greatest, last_ns in rows:
        if ended_ns.get(name, 0) - last_ns > LATEST_NS:
            continue  # proportional memory is sampled seldom: what was true minutes before is not the end
        found.setdefault((by_name[name].arm, metric), []).append(Session(first, last, greatest))
    return found


def _end(sessions: list[Session]) -> float:
    return median(session.last for session in sessions)


def _intro(of_arm: Mapping[str, Mapping[str, list[Session]]]) -> str:
    ends = {arm: _end(metrics["server_rss_bytes"]) for arm, metrics in of_arm.items()}
    least, most = min(ends, key=ends.__getitem__), max(ends, key=ends.__getitem__)
    unit = display_unit("server_rss_bytes", ends[most])
    return (
        f"At the end of a run the arms' resident memory lies between {unit.text(ends[least])} ({least}) and "
        f"{unit.text(ends[most])} ({most}): an end-to-end spread of {unit.text(ends[most] - ends[least])}, "
        f"{percent((ends[most] - ends[least]) / ends[least])} of the least. Medians over the valid runs; below "
        "each, their range. By then an arm that is faster has served more. Reserved huge pages are in no process's "
        "resident memory."
    )


def _table(result: StudyResult, of_arm: Mapping[str, Mapping[str, list[Session]]]) -> Table:
    columns = [
        (metric, words)
        for metric, words in COLUMNS
        if any(session.last for found in of_arm.values() for session in found.get(metric, []))
    ]
    rows = []
    for arm, found in of_arm.items():
        resident = found["server_rss_bytes"]
        growth = [session.last - session.first for session in resident]
        rows.append([
            Cell(arm, "arm", glyph(result.styles[arm])),
            _cell([session.first for session in resident]),
            _cell(growth, signed=True),
            _cell([session.greatest for session in resident]),
            *(_cell([session.last for session in found.get(metric, [])]) for metric, _ in columns),
        ])  # fmt: skip
    head = ["arm", "resident at the start", "growth", "resident at most", *(words for _, words in columns)]
    return Table("The server's memory over a whole run", head, rows, look="facts")


def _cell(values: list[float], signed: bool = False) -> Cell:
    """The median, and under it the range."""
    if not values:
        return Cell(NONE, "num")
    middle = median(values)
    unit = display_unit("server_rss_bytes", max(abs(value) for value in values))
    sign = "+" if signed and middle > 0 else ""
    spread = f"{unit.number(min(values))} … {unit.text(max(values))}" if len(values) > 1 else ""
    return Cell(f"{sign}{unit.text(middle)}", "num strong", below=spread)


def _kinds_table(result: StudyResult) -> Table | None:
    """The parts after the last step; None if no run has the figures."""
    of_arm = {arm: found for arm in result.styles if (found := _facts(result, arm))}
    if not of_arm:
        return None
    columns = [(words, value) for words, value in KINDS if any(any(_values(runs, value)) for runs in of_arm.values())]
    rows = []
    for arm, runs in of_arm.items():
        cells = [_cell(_values(runs, value)) for _, value in columns]
        rows.append([Cell(arm, "arm", glyph(result.styles[arm])), *cells, Cell(_free_share(runs), "num")])
    head = ["arm", *(words for words, _ in columns), "of it free"]
    if not any(run.get("allocator_held_bytes") for runs in of_arm.values() for run in runs):
        rows, head = [row[:-1] for row in rows], head[:-1]
    return Table("Its parts after the last load level", head, rows, look="facts")


def _untold(result: StudyResult) -> list[str]:
    """A sentence for each reason why an allocator's own figures are missing."""
    reasons: dict[str, dict[str, None]] = {}
    for run in sorted(result.runs, key=lambda run: list(result.styles).index(run.arm)):
        for evidence in run.evidence if run.valid else ():
            if "untold" in evidence.facts:
                reasons.setdefault(str(evidence.facts["untold"]), {})[run.arm] = None
    return [
        f"The allocator's own figures are missing for {', '.join(arms)}: {reason}." for reason, arms in reasons.items()
    ]


def _facts(result: StudyResult, arm: str) -> list[Facts]:
    evidence = [one for run in result.runs if run.valid and run.arm == arm for one in run.evidence]
    return [one.facts for one in evidence if "anonymous_bytes" in one.facts]


def _beside_pool(facts: Facts) -> float | None:
    """None if the pool is on reserved huge pages, which smaps does not count as resident."""
    rest = facts["anonymous_bytes"] + facts["heap_bytes"] - facts.get("pool_data_bytes", 0)
    return rest if rest > 0 and not facts.get("reserved_huge_bytes") else None


KINDS: tuple[tuple[str, Callable[[Facts], float | None]], ...] = (
    ("private memory, resident", lambda facts: facts["anonymous_bytes"] + facts["heap_bytes"]),
    ("of it on transparent huge pages", lambda facts: facts.get("transparent_huge_bytes")),
    ("mapped on reserved huge pages", lambda facts: facts.get("reserved_huge_bytes")),
    ("InnoDB's pages with data", lambda facts: facts.get("pool_data_bytes")),
    ("private beside them", _beside_pool),
    ("programs, libraries, stacks", lambda facts: facts["other_bytes"]),
    ("held by the allocator", lambda facts: facts.get("allocator_held_bytes")),
    ("of it in use", lambda facts: facts.get("allocator_in_use_bytes")),
)


def _values(runs: list[Facts], value: Callable[[Facts], float | None]) -> list[float]:
    return [float(found) for run in runs if (found := value(run)) is not None]


def _free_share(runs: list[Facts]) -> str:
    shares = [1 - run["allocator_in_use_bytes"] / held for run in runs if (held := run.get("allocator_held_bytes"))]
    return percent(median(shares)) if shares else NONE


ANALYSIS = Analysis(chapter="why", part=part)
