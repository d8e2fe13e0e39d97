"""A bisection's words and pages: every state, and subjects that other people wrote."""

from __future__ import annotations

import io
import re

import pytest
from markupsafe import escape

from mydyno.bisect.document import bisect_document, path
from mydyno.document.parts import Cell
from mydyno.document.printers import Paper, printed
from mydyno.model.stored.bisection import BisectRecord, BisectResult, Commit, Comparison, Ends, Remainder
from tests.support.fake_script import experiment

NASTY = "Use <script>alert(1)</script> | *fast* [link](x)"


def commit(number: int, subject: str = "") -> Commit:
    return Commit(hash=f"{number:040x}", subject=subject or f"Change {number}", author="Ada Dev <ada@example.org>",
                  date="2026-11-23T10:00:00+00:00")  # fmt: skip


def compared(number: int, outcome: str, ratio: float | None = None, **changes: object) -> Comparison:
    low, high = (None, None) if ratio is None else (ratio - 0.01, ratio + 0.01)
    values = {
        "outcome": outcome,
        "ratio": ratio,
        "low": low,
        "high": high,
        "blocks": 6,
        "study": "studies/x",
        **changes,
    }
    return Comparison.model_validate({"commit": commit(number, str(changes.pop("subject", ""))), **values})


RECORD = BisectRecord(
    bisection="b", created_unix_ns=1, mydyno_version="0", experiment=experiment(), good=commit(0), bad=commit(9),
    commits=9, metric="qps", longest_s=180,
)  # fmt: skip
ENDS = Ends(comparison=compared(9, "bad", 0.9), state="differ", step="oltp_read_only-4", limit=0.9487)
FOUND = BisectResult(
    bisection="b", state="found", first_bad=commit(5, NASTY), ends=ENDS,
    comparisons=(
        compared(4, "good", 1.001), compared(5, "bad", 0.905, subject=NASTY),
        compared(3, "skipped", skipped_because="build", reason="its command ended with exit code 2", study=""),
    ),
)  # fmt: skip


def bisect_markdown(record: BisectRecord, result: BisectResult) -> str:
    return printed(bisect_document(record, result), "report.html")


def text_of(result: BisectResult, record: BisectRecord = RECORD) -> str:
    out = io.StringIO()
    Paper(out).document(bisect_document(record, result))
    return " ".join(out.getvalue().split())


def test_the_answer_comes_first_with_commit_subject_author_and_date() -> None:
    text = text_of(FOUND)
    assert (
        f" fake arm change anything? The first bad commit is {commit(5).hash} ({NASTY}; Ada Dev, 2026-11-23)." in text
    )
    assert f"{commit(9).short} differs from {commit(0).short} by -10 % (-11 % ... -9 %)." in text.replace(
        "−", "-"
    ).replace("…", "...")
    assert "1 commit was skipped: 1 did not build." in text
    assert f"{commit(3).short}: its command ended with exit code 2" in text
    assert "9 commits after" in text
    assert "is undecided after 3 min is skipped" in text


def test_the_limit_is_called_half_of_the_difference_only_where_it_is() -> None:
    near = FOUND.model_copy(update={"ends": ENDS.model_copy(update={"limit": 0.97})})
    set_ = RECORD.model_copy(update={"threshold": 0.03})
    texts = (text_of(FOUND), text_of(near), text_of(near, set_))
    words = ("half of that", "the near end of that interval", "as set")
    assert [[word for word in words if f"({word})" in text] for text in texts] == [[word] for word in words]


def test_what_was_undecided_need_not_have_had_a_longest_time() -> None:
    skipped = compared(3, "skipped", skipped_because="undecided")
    text = text_of(FOUND.model_copy(update={"comparisons": (skipped,)}), RECORD.model_copy(update={"longest_s": None}))
    assert "1 commit was skipped: 1 was undecided." in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"state": "range", "first_bad": None, "suspects": (commit(4), commit(5), commit(6))},
            f"The first bad commit is one of 3: {commit(4).short}, {commit(5).short} and {commit(6).short}. It",
        ),
        (
            {"state": "unfinished", "first_bad": None, "left": 4},
            "Interrupted: the first bad commit is one of 4. To continue: `mydyno bisect b`.",
        ),
        ({"state": "no difference", "first_bad": None, "comparisons": ()}, "do not differ in QPS"),
        (
            {"state": "no difference", "first_bad": None},
            f"{commit(0).short} is bad already: set that commit as --good",
        ),
        ({"state": "better", "first_bad": None, "comparisons": ()}, "is better than the good end"),
        ({"state": "undecided", "first_bad": None, "comparisons": ()}, "It is undecided whether"),
    ],
)
def test_every_other_state_is_told(changes: dict[str, object], words: str) -> None:
    result = FOUND.model_copy(update=changes)
    assert words in text_of(result)
    assert "<h1>" in bisect_document(RECORD, result).page
    assert bisect_markdown(RECORD, result).startswith("## Which commit ")


@pytest.mark.parametrize("named", ["more", "less"])
def test_what_the_named_commit_leaves_is_told_at_once_with_a_command_to_copy(named: str) -> None:
    command = (
        f"mydyno bisect --good {commit(6).short} --bad {commit(9).short} --set 'a.b=*' /src/{'long_' * 20}name.toml"
    )
    result = FOUND.model_copy(update={"remainder": Remainder.model_validate({"named": named, "command": command})})
    out = io.StringIO()
    Paper(out, 80).document(bisect_document(RECORD, result))
    assert f"\n  {command}\n" in out.getvalue(), "it is not wrapped"
    text = text_of(result)
    assert (
        0 < text.index(f"{named} than what the ends differ by: at least one later commit") < text.index("differs from")
    )
    markdown = bisect_markdown(RECORD, result)
    assert f"\n```sh\n{command}\n```\n" in markdown
    assert f"<code>{escape(command)}</code>" in bisect_document(RECORD, result).page
    last = result.model_copy(update={"remainder": Remainder.model_validate({"named": named})})
    assert f"the bad end, {commit(9).short}, " in text_of(last)


def test_subjects_are_text_on_every_page() -> None:
    page = bisect_document(RECORD, FOUND).page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<svg") == 2, "one chart for wide pages, one for narrow ones"
    assert re.search(r">bad end<", page)
    markdown = bisect_markdown(RECORD, FOUND)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \\| \\*fast\\* \\[link\\](x)" in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}


def test_the_confidence_of_the_intervals_is_stated_of_each_where_it_is_not_that_of_all() -> None:
    at = [one.model_copy(update={"confidence": 0.9917}) for one in FOUND.comparisons]
    same = path(FOUND.model_copy(update={"ends": None, "comparisons": tuple(at)}))
    assert same.head[4] == "99.17 % interval"
    at[0] = at[0].model_copy(update={"confidence": 0.95})
    several = path(FOUND.model_copy(update={"ends": None, "comparisons": tuple(at)}))
    assert several.head[4] == "interval"
    assert [row[4].text.partition("(")[2] for row in several.rows if isinstance(row[4], Cell)] == [
        "95 %)",
        "99.17 %)",
        "",
    ]


def test_the_plain_effect_stands_beside_the_adjusted_one_where_it_differs() -> None:
    same = FOUND.comparisons[0].model_copy(update={"plain": 1.00102})
    assert path(FOUND.model_copy(update={"comparisons": (same,)})).head == path(FOUND).head
    other = FOUND.comparisons[1].model_copy(update={"plain": 0.93})
    found = path(FOUND.model_copy(update={"comparisons": (same, other)}))
    assert found.head[3:6] == ("effect", "plain", "interval")
    assert [cell.text for row in found.rows for cell in row[4:5] if isinstance(cell, Cell)] == ["", "+0.1 %", "−7 %"]
    assert "without the adjustment" in found.note
