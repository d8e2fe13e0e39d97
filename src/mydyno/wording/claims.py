"""How many claims of published studies this one confirms."""

from __future__ import annotations

from collections import Counter

from mydyno.model.stored.summary import Summary

WORDS = {"agrees": "agree", "partly": "partly", "disagrees": "disagree", "cannot tell": "undecided"}


def counted_claims(summary: Summary) -> str:
    """The number of each answer: "2 agree, 1 undecided"; empty without claims."""
    answers = [one.answer for one in summary.conclusions] + [one.agreement for one in summary.published]
    return ", ".join(
        f"{count} {answer if count == 1 and answer.endswith('agrees') else WORDS[answer]}"
        for answer, count in Counter(answers).most_common()
    )
