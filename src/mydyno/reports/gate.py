"""The gate as a document of its own and as a section of the report, and as files for other programs: JUnit XML, and
Bencher Metric Format JSON.
"""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

from mydyno.document.parts import Cell, Document, Listed, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.verdicts.threshold import Comparison, Outcome
from mydyno.wording.gate import GateResult, answer, bounds_text, effect_text, gate_study, notes, plain_text, shows_plain
from mydyno.wording.numbers import limit_text, metric_name

SIGNS = {Outcome.PASSED: "✅", Outcome.WORSE: "❌", Outcome.FAILED: "❌", Outcome.UNDECIDED: "❔"}


def gate_document(result: GateResult) -> Document:
    """All of it."""
    scope = [Note(result.scope), Note(f"Study {result.study}.")]
    return Document(
        title=f"{result.experiment}: {result.outcome}",
        over="gate",
        below=result.question,
        parts=[_part(result), Part(id="scope", heading="Scope", body=scope)],
        sign=SIGNS[result.outcome],
        outcome=result.outcome,
    )


def gate_part(result: StudyResult) -> Part | None:
    """None where the study declares no limit."""
    return _part(gate_study(result.folder, result.summary)) if result.study.experiment.thresholds else None


def _part(result: GateResult) -> Part:
    rows: list[list[str | Cell]] = []
    plain = ("plain",) if shows_plain(result) else ()
    several = len({one.control for one in result.comparisons}) > 1
    for step in dict.fromkeys(one.step for one in result.comparisons):
        rows.append([step])
        rows += [_row(one, several, bool(plain)) for one in result.comparisons if one.step == step]
    head = ("metric", "arm", "limit", "effect", *plain, "bounds", "result")
    return Part(
        id="gate",
        heading=f"Limits: {result.outcome}",
        short="Limits",
        lead=[*filter(None, (answer(result), result.next_step, result.builds))],
        body=[Table("Limits of the gate", head, rows), Listed(_reasons(result)), *map(Note, notes(result))],
    )


def _row(one: Comparison, several: bool, is_adjusted: bool) -> list[str | Cell]:
    return [
        metric_name(one.metric.name),
        f"{one.arm} against {one.control}" if several else one.arm,
        Cell(limit_text(one.limit), "num"),
        Cell(effect_text(one) or "–", "num"),
        *([Cell(plain_text(one) or "–", "num")] if is_adjusted else []),
        Cell(bounds_text(one) or "–", "num"),
        Cell(one.outcome, f"strong {one.outcome}", sign=SIGNS[one.outcome]),
    ]


def _reasons(result: GateResult) -> list[str]:
    """Reasons with the comparisons that they are of; without those that are in the answer."""
    found: dict[str, list[str]] = {}
    for one in result.comparisons:
        is_said = result.obstacle or one.reason in answer(result)
        if one.reason and not is_said:
            found.setdefault(one.reason, []).append(f"{metric_name(one.metric.name)} of {one.arm} at {one.step}")
    return [f"{', '.join(where)}: {reason}." for reason, where in found.items()]


_NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
TAGS = {Outcome.WORSE: "failure", Outcome.FAILED: "failure", Outcome.UNDECIDED: "error"}


def junit(result: GateResult) -> str:
    """A test case for each comparison.

    Worse and failed are failures. Undecided is an error, because readers of the format count skipped tests as passed.
    """
    failures = sum(TAGS.get(one.outcome) == "failure" for one in result.comparisons)
    errors = sum(TAGS.get(one.outcome) == "error" for one in result.comparisons)
    counts = {"tests": str(len(result.comparisons)), "failures": str(failures), "errors": str(errors)}
    time = {"time": f"{result.duration_s:.3f}"}
    root = ET.Element("testsuites", {"name": "mydyno gate", **counts, **time})
    suite = ET.SubElement(root, "testsuite", {"name": _text(result.experiment), **counts, "skipped": "0", **time})
    properties = ET.SubElement(suite, "properties")
    facts = {"study": result.study, "outcome": result.outcome.value, "builds": result.builds, "scope": result.scope}
    for name, value in facts.items():
        if value or name != "builds":
            ET.SubElement(properties, "property", {"name": name, "value": _text(value)})
    for one in result.comparisons:
        case = ET.SubElement(suite, "testcase", {
            "classname": _text(f"{result.experiment}.{one.step}"),
            "name": _text(f"{one.metric.name}: {one.arm} no worse than {limit_text(one.limit)} against {one.control}"),
            "time": "0",
        })  # fmt: skip
        effect, plain, bounds = effect_text(one), plain_text(one), bounds_text(one)
        words = ", ".join(filter(None, (
            effect and f"effect {effect}", plain and f"plain effect {plain}", bounds and f"bounds {bounds}",
            f"limit {limit_text(one.limit)}",
            one.reason or (result.obstacle if one.outcome is Outcome.UNDECIDED else ""),
        )))  # fmt: skip
        tag = TAGS.get(one.outcome)
        if tag is None:
            ET.SubElement(case, "system-out").text = _text(words)
        else:
            found = ET.SubElement(case, tag, {"type": one.outcome.value, "message": _text(words)})
            found.text = _text(" ".join(filter(None, (answer(result), result.next_step))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _text(text: str) -> str:
    """Without characters that XML 1.0 cannot hold, which an error log may have."""
    return _NOT_XML.sub("\ufffd", text)


def bencher(result: GateResult) -> str:
    """For `bencher run --adapter json --file FILE`. Empty where nothing may be examined.

    A benchmark is an experiment's arm at a step, in comparison with its control. For each metric it has two measures:
    METRIC, the arm's own value, the geometric mean of its blocks, which depends on the host; and METRIC-ratio, the
    arm's value relative to its control's with the one-sided bounds of the gate, which does not. Comparisons without a
    number are left out: the format has none without.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one in result.comparisons:
        if one.ratio is None or one.arm_value is None:
            continue
        measures = found.setdefault(f"{result.experiment}: {one.arm} against {one.control}, {one.step}", {})
        measures[one.metric.name] = {"value": one.arm_value}
        ratio = {"value": one.ratio}
        if one.low is not None and one.high is not None:
            ratio |= {"lower_value": one.low, "upper_value": one.high}
        measures[f"{one.metric.name}-ratio"] = ratio
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
