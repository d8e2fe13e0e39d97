"""The answer on what failed: arms, controls and studies are named by the cause, with the cure where there is one."""

from __future__ import annotations

from mydyno.evaluation.answer import answer_study
from mydyno.model.stored.reasons import GIVEN_UP, NOTHING_ENDED, NOTHING_SERVED
from mydyno.results.precision import failed_blocks
from mydyno.wording.verdicts import failure_of
from tests.support.fake_answer import COST, METRICS, answer, cost, effect, experiment, records, study, summary

KILLED = (
    "the kernel killed the server for lack of memory (exit code -9)\n  error log: 2026-11-29  6:00:{s}0 0 [ERROR] a"
)


def test_an_arm_that_failed_is_named_with_its_reason_and_has_no_number() -> None:
    failures = dict.fromkeys([(2, "jemalloc"), (5, "jemalloc")], "the server ran out of memory")
    effects = [effect("jemalloc", "not_measurable"), effect("tcmalloc", "higher", 6.0)]
    said = answer(effects, failures=failures)
    assert said.endswith("jemalloc failed in 2 of 6 blocks (the server ran out of memory).")
    assert said.count("jemalloc") == 1


def test_a_failure_that_only_the_verdict_knows_is_named() -> None:
    told = {"failure": {"who": "arm", "blocks": 1, "tried": 6, "why": {NOTHING_SERVED: 1}}}
    effects = [effect("jemalloc", "not_measurable", details=told), effect("tcmalloc", "higher", 6.0)]
    assert answer(effects).endswith("jemalloc failed in 1 of 6 blocks (it served nothing).")


def test_a_control_that_failed_is_said_as_such() -> None:
    effects = [effect("jemalloc", "not_measurable"), effect("tcmalloc", "not_measurable")]
    said = answer(effects, failures={(1, "glibc"): "mariadbd ended with signal 6"})
    assert said == "The control glibc failed in 1 of 6 blocks (mariadbd ended with signal 6)."


def test_a_study_in_which_nothing_was_served_begins_with_cause_and_cure() -> None:
    of = experiment(("pool", "plain"))
    failure = {"failure": {"who": "control", "blocks": 2, "tried": 6, "why": {NOTHING_SERVED: 2}}}
    made = summary(of, [effect("plain", "not_measurable", control="pool", details=failure)])
    step = made.steps[0].id
    runs = tuple(
        run.model_copy(update={"values": {step: {"qps": 0.0 if run.arm == "pool" and run.block in (2, 5) else 90.0}}})
        for run in made.runs
    )
    made = made.model_copy(update={"runs": runs})
    assert failed_blocks(made.runs, "pool", step) == dict.fromkeys((2, 5), NOTHING_SERVED), "as verdicts count"
    assert answer_study(made, study(of), records(of)).answer[:2] == (
        "The control pool failed in 2 of 6 blocks (it served nothing).",
        "No transaction ended within slices of 2 s: use longer ones: --set design.slice=10s.",
    )
    open_ = effect("plain", "inconclusive", 1.0, 400.0, control="pool")
    said = answer_study(made.model_copy(update={"effects": (open_,)}), study(of), records(of)).answer
    assert said[0].startswith("The control pool failed") and "±" not in " ".join(said)


def test_an_arm_that_is_too_slow_for_the_slices_is_named_with_the_cure() -> None:
    failures = dict.fromkeys([(block, "jemalloc") for block in range(1, 7)], NOTHING_ENDED)
    said = answer([effect("jemalloc", "not_measurable"), effect("tcmalloc", "higher", 6.0)], failures=failures)
    assert said.endswith(
        "jemalloc failed in 6 of 6 blocks (no transaction ended). No transaction ended within slices of 2 s: use "
        "longer ones: --set design.slice=10s."
    )


def test_a_failure_is_named_beside_all_else_that_an_answer_says_and_by_its_cause() -> None:
    of = experiment()
    failures = {(block, "jemalloc"): KILLED.format(s=block) if block < 3 else GIVEN_UP for block in range(1, 7)}
    why = {"why": {GIVEN_UP: 4, KILLED.format(s=1): 1, KILLED.format(s=2): 1}, "who": "arm", "blocks": 6, "tried": 6}
    lost = [
        effect("jemalloc", "not_measurable", details={"failure": why}),
        effect("jemalloc", "not_measurable", metric=COST),
    ]
    effects = [*lost, effect("tcmalloc", "inconclusive", -9.0, 18.0), cost("tcmalloc", "higher", 12.0, 10.0)]
    made = summary(of, effects, failures=failures, metrics=METRICS, strangers=0.74)
    found = answer_study(made, study(of), records(of))
    cause = "the kernel killed the server for lack of memory (exit code -9): a"
    assert found.answer[-1] == f"jemalloc failed in 6 of 6 blocks ({cause})."
    assert "tcmalloc is inconclusive in queries per second." in found.answer, "and not all comparisons"
    assert "2 comparisons tested together" in found.scope, "what failed is not tested"
    assert failure_of(made, effects[0]) == f"jemalloc failed in 6 of 6 blocks ({cause}: 2, {GIVEN_UP}: 4)"
