"""The parts of a server's memory after the last step: by the kernel's smaps, and by the allocator's own figures.

From the evidence that allocators give after the load (treatments/allocator_memory.py); medians over runs that count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table, glyph
from mydyno.wording.numbers import percent

Facts = Mapping[str, float]
Cells = Callable[[list[float]], Cell]


def table(result: StudyResult, in_bytes: Cells) -> Table | None:
    """The table; None if no run has the figures. `in_bytes` writes the values of one arm's runs."""
    of_arm = {arm: found for arm in result.styles if (found := _facts(result, arm))}
    if not of_arm:
        return None
    columns = [(words, value) for words, value in COLUMNS if any(_values(runs, value) for runs in of_arm.values())]
    rows = []
    for arm, runs in of_arm.items():
        cells = [in_bytes(_values(runs, value)) for _, value in columns]
        rows.append([Cell(arm, "arm", glyph(result.styles[arm])), *cells, Cell(_free_share(runs), "num")])
    head = ["arm", *(words for words, _ in columns), "of it free"]
    if not any(_held(run) for runs in of_arm.values() for run in runs):
        rows, head = [row[:-1] for row in rows], head[:-1]
    return Table("Its parts after the last step", head, rows)


def untold(result: StudyResult) -> list[str]:
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


def _private(facts: Facts) -> float | None:
    return facts["anonymous_bytes"] + facts["heap_bytes"]


def _pool(facts: Facts) -> float | None:
    return facts.get("pool_data_bytes")


def _rest(facts: Facts) -> float | None:
    """None if the pool is on reserved huge pages, which smaps does not count as resident."""
    rest = facts["anonymous_bytes"] + facts["heap_bytes"] - facts.get("pool_data_bytes", 0)
    return rest if rest > 0 and not facts.get("reserved_huge_bytes") else None


def _transparent(facts: Facts) -> float | None:
    return facts.get("transparent_huge_bytes")


def _reserved(facts: Facts) -> float | None:
    return facts.get("reserved_huge_bytes")


def _other(facts: Facts) -> float | None:
    return facts["other_bytes"]


def _held(facts: Facts) -> float | None:
    return facts.get("allocator_held_bytes")


def _in_use(facts: Facts) -> float | None:
    return facts.get("allocator_in_use_bytes")


COLUMNS: tuple[tuple[str, Callable[[Facts], float | None]], ...] = (
    ("private memory, resident", _private),
    ("of it on transparent huge pages", _transparent),
    ("mapped on reserved huge pages", _reserved),
    ("InnoDB's pages with data", _pool),
    ("private beside them", _rest),
    ("programs, libraries, stacks", _other),
    ("held by the allocator", _held),
    ("of it in use", _in_use),
)


def _values(runs: list[Facts], value: Callable[[Facts], float | None]) -> list[float]:
    return [float(found) for run in runs if (found := value(run))]


def _free_share(runs: list[Facts]) -> str:
    shares = [1 - run["allocator_in_use_bytes"] / held for run in runs if (held := _held(run))]
    return percent(median(shares)) if shares else "–"
