"""The answer on arms that gain by finding less: the same sentence says so."""

from __future__ import annotations

from mydyno.evaluation.answer import answer_study
from tests.support.fake_answer import answer, cost, effect, experiment, records, study, summary


def found(arm: str, share: float, of: str = "keys") -> dict[str, object]:
    return {"step": "oltp_read_only-64", "arm": arm, "of": of, "share": share}


def test_a_gain_that_comes_from_finding_less_is_said_in_the_same_sentence() -> None:
    effects = [effect("jemalloc", "higher", 14.0), effect("tcmalloc", "higher", 6.1)]
    effects += [cost("jemalloc", "lower", -5.0), cost("tcmalloc", "lower", -5.0)]
    shares = (found("glibc", 0.9999), found("jemalloc", 0.53), found("tcmalloc", 0.9999))
    assert answer(effects, found=shares) == (
        "jemalloc (+14 %) and tcmalloc (+6.1 %) serve more queries than glibc, at 5 % less CPU per query, where "
        "jemalloc found 53 % of the keys instead of 100 %."
    )
    assert answer([effect("jemalloc", "higher", 14.0)], found=shares) == (
        "jemalloc serves more queries than glibc: +14 % (between +12.9 % and +15.1 %), with 53 % of the keys found "
        "instead of 100 %."
    )
    rows = (found("glibc", 1.0, "rows"), found("jemalloc", 0.5, "rows"))
    assert answer([effect("jemalloc", "equivalent", 0.1)], found=rows).endswith(
        ", with 50 % of the statements finding a row instead of 100 %."
    )


def test_an_open_comparison_of_unlike_work_says_so_too() -> None:
    shares = (found("glibc", 1.0), found("jemalloc", 0.31))
    effects, less = [effect("jemalloc", "inconclusive", -8.0, 6.0)], "with 31 % of the keys found instead of 100 %."
    of = experiment()
    made = summary(of, effects, found=shares)
    assert answer_study(made, study(of), records(of)).answer[0].endswith(f"hidden by this host's noise, {less}")
    busy = summary(of, effects, found=shares, strangers=0.8)
    assert answer_study(busy, study(of), records(of)).answer[-1].endswith(f" per second are inconclusive, {less}")
    beside = [effect("tcmalloc", "higher", 6.0), *effects]
    assert answer(beside, found=shares).endswith(f"hidden by this host's noise, {less}")


def test_a_control_that_serves_more_by_finding_less_is_no_better_either() -> None:
    shares = (found("glibc", 0.2), found("jemalloc", 1.0))
    said = answer([effect("jemalloc", "lower", -14.0)], found=shares)
    assert said.endswith(", with 100 % of the keys found instead of 20 %.")
    assert "found" not in answer([effect("jemalloc", "higher", 14.0)], found=shares), "more found is no doubt"


def test_a_cost_that_is_less_for_less_work_is_said_in_the_same_sentence() -> None:
    effects = [effect("jemalloc", "equivalent", 0.1), cost("jemalloc", "lower", -8.0)]
    said = answer(effects, found=(found("glibc", 1.0), found("jemalloc", 0.156)))
    assert "8 % less CPU per query than glibc, with 16 % of the keys found instead of 100 %" in said
