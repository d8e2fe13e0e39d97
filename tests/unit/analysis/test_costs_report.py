"""The costs of a transaction in reports: what is named, in which words, and what is left out."""

from __future__ import annotations

from pathlib import Path

from mydyno.analysis.costs import accompanied, change_text, interval_text, value_text
from mydyno.document.result import StudyResult
from mydyno.model.stored.analyses import CandidateRecord
from mydyno.model.stored.reasons import CopiesDiffer
from mydyno.model.stored.summary import CostRecord, CostsRecord, EffectRecord
from mydyno.reports.formats import markdown_text
from mydyno.reports.page import render_page
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_interleaved_folder import build

STEP = "oltp_read_only-64"


def cost(name: str, control: float, arm: float, ratio: float, *, beyond: bool) -> CostRecord:
    return CostRecord(
        cost=name, step=STEP, arm="jemalloc", control="glibc", control_value=control, arm_value=arm, ratio=ratio,
        ci_low=ratio * 0.9, ci_high=ratio * 1.1, beyond_noise=beyond,
    )  # fmt: skip


COSTS = (
    cost("fsyncs", 0.004, 0.6, 120.0, beyond=True),
    cost("server_cpu_user_us", 700.0, 690.0, 0.985, beyond=False),
    cost("temporary_disk_tables", 0.0, 0.0, 1.0, beyond=False),
    cost("bytes_sent", 39500.0, 39500.0, 1.0, beyond=False),
)
CPU = "server_cpu_us_per_query"
NAMED = CandidateRecord(
    metric="qps", step=STEP, arm="jemalloc", control="glibc", kind="cost", name="fsyncs", explains=0.6, measured=False
)


def study(
    folder: Path, record: CostsRecord, verdict: str, *candidates: CandidateRecord, metric: str = "qps"
) -> StudyFolder:
    made = build(folder)
    summary = made.summary()
    assert summary is not None

    def changed(effect: EffectRecord) -> EffectRecord:
        same = (effect.metric, effect.step, effect.arm) == (metric, STEP, "jemalloc")
        return effect.model_copy(update={"verdict": verdict if same else "inconclusive", "ratio": 0.8})

    made.write_summary(
        summary.model_copy(
            update={
                "costs": record,
                "effects": tuple(changed(one) for one in summary.effects),
                "candidates": candidates,
            }
        )
    )
    return made


def test_what_came_with_an_effect_is_named_with_the_experiment_that_tests_it(tmp_path: Path) -> None:
    folder = study(tmp_path / "s", CostsRecord(costs=COSTS), "lower", NAMED)
    page = render_page(folder)
    title = "Costs that changed with the effect</small> Fsync calls of InnoDB: 0.0040 → 0.60 per transaction</h3>"
    assert title in page
    assert "Fsync calls of InnoDB: 0.0040 → 0.60 per transaction (× 120). This can account for up to 60" in page
    assert "mydyno run allocators --time 10m --set &#39;arms={" in page
    assert "innodb_flush_log_at_trx_commit = 2" in page
    assert "only an experiment that changes one of them on purpose shows which" in page
    assert "None, or almost none, in all arms: temporary tables on disk." in page


def test_an_effect_without_a_cost_that_explains_it_says_so(tmp_path: Path) -> None:
    folder = study(tmp_path / "s", CostsRecord(costs=COSTS), "lower")
    (found,) = accompanied(StudyResult.load(folder), CostsRecord(costs=COSTS))
    assert not found.named
    assert found.sentences == ("No counted cost changed beyond noise and far enough to account for this effect.",)
    assert found.tests == ()


def test_without_an_effect_no_cause_is_looked_for(tmp_path: Path) -> None:
    page = render_page(study(tmp_path / "s", CostsRecord(costs=COSTS), "inconclusive"))
    assert "What a transaction costs" in page
    assert "so no cause is looked for" in page
    assert "Accompanied by" not in page


def test_an_effect_on_the_servers_cpu_time_alone_is_looked_at_too(tmp_path: Path) -> None:
    named = NAMED.model_copy(update={"metric": CPU, "name": "server_cpu_user_us", "explains": 1.0, "measured": True})
    costs = (cost("server_cpu_user_us", 700.0, 735.0, 1.05, beyond=True),)
    made = study(tmp_path / "s", CostsRecord(costs=costs), "higher", named, metric=CPU)
    text = render_page(made).replace("\u00a0", " ")
    assert "Costs that changed with the effect" in text
    assert "Server CPU, user: 700 µs → 735 µs per transaction" in text
    assert "This accounts for all of the change." in text
    assert "Of an effect on the server&#39;s CPU time, shares are of the change in that time" in text
    assert "No setting is known to change server CPU, user alone. To test it, add an arm with another build" in text
    assert "Of an effect on the server's CPU time, shares" in markdown_text(made)


def test_an_effect_on_cpu_time_without_a_part_that_changed_says_so(tmp_path: Path) -> None:
    made = study(tmp_path / "s", CostsRecord(costs=COSTS), "higher", metric=CPU)
    (found,) = accompanied(StudyResult.load(made), CostsRecord(costs=COSTS))
    assert found.sentences == (
        "Whether it is CPU time in user mode or in the kernel is not shown: the intervals of costs are wider than "
        "this effect's, and no function of a profile changed beyond noise.",
    )


def test_copies_that_differ_are_the_reason_that_no_cost_is_compared(tmp_path: Path) -> None:
    record = CostsRecord(costs=COSTS, alarm=CopiesDiffer(control="glibc", step="s", kind="event", of="fsyncs"))
    page = render_page(study(tmp_path / "s", record, "lower"))
    assert "No cost is compared: two copies of glibc differ in fsyncs" in page


def test_changes_are_percentages_or_factors() -> None:
    assert change_text(COSTS[0]) == "× 120"
    assert interval_text(COSTS[0]) == "× 110 … 130"
    assert change_text(cost("fsyncs", 1.0, 0.1, 0.1, beyond=True)) == "÷ 10"
    assert change_text(COSTS[1]).startswith("−1.5")
    appears = cost("fsyncs", 0.0, 0.6, 600.0, beyond=True)
    assert (change_text(appears), interval_text(appears)) == ("–", "–"), "nothing has no multiple"
    assert value_text("bytes_sent", 39500.0) == "38.6\u00a0KiB"
    assert value_text("fsyncs", 0.0002) == "0"
