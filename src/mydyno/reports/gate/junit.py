"""The gate as JUnit XML: a test case for each comparison.

Worse and failed are failures. Undecided is an error, because readers of the format count skipped tests as
passed.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from mydyno.verdicts.threshold import Outcome
from mydyno.wording.gate import GateResult, answer, limit_text, rows

_NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
TAGS = {Outcome.WORSE: "failure", Outcome.FAILED: "failure", Outcome.UNDECIDED: "error"}


def junit(result: GateResult) -> str:
    """The document, with its XML declaration."""
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
    for one, row in zip(result.comparisons, rows(result), strict=True):
        case = ET.SubElement(suite, "testcase", {
            "classname": _text(f"{result.experiment}.{one.step}"),
            "name": _text(f"{one.metric.name}: {one.arm} no worse than {limit_text(one)} against {one.control}"),
            "time": "0",
        })  # fmt: skip
        words = ", ".join(filter(None, (
            row.effect and f"effect {row.effect}", row.bounds and f"bounds {row.bounds}", f"limit {row.limit}",
            row.reason or (result.obstacle if one.outcome is Outcome.UNDECIDED else ""),
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
