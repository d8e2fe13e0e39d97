"""The costs of a transaction in reports: what is named, in which words, and what is left out."""

from __future__ import annotations

from pathlib import Path

from mydyno.model.summary import AccompanimentRecord, CostRecord, CostsRecord, EffectRecord
from mydyno.reports.costs import accompanied, change_text, interval_text, value_text
from mydyno.reports.page import render_page
from mydyno.reports.result import StudyResult
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
NAMED = AccompanimentRecord(
    metric="qps", step=STEP, arm="jemalloc", control="glibc", cost="fsyncs", explains=0.6, measured=False
)


def study(folder: Path, record: CostsRecord, verdict: str) -> StudyFolder:
    made = build(folder)
    summary = made.summary()
    assert summary is not None

    def changed(effect: EffectRecord) -> EffectRecord:
        same = (effect.metric, effect.step, effect.arm) == ("qps", STEP, "jemalloc")
        return effect.model_copy(update={"verdict": verdict if same else "inconclusive", "ratio": 0.8})

    made.write_summary(
        summary.model_copy(update={"costs": record, "effects": tuple(changed(one) for one in summary.effects)})
    )
    return made


def test_what_came_with_an_effect_is_named_with_the_experiment_that_tests_it(tmp_path: Path) -> None:
    folder = study(tmp_path / "s", CostsRecord(costs=COSTS, accompaniments=(NAMED,)), "lower")
    page = render_page(folder)
    assert "What came with it" in page
    assert "Fsync calls of InnoDB: 0.0040 → 0.60 per transaction (× 120). This can account for up to 60" in page
    assert "mydyno run variable --set &#39;vary.variables.innodb_flush_log_at_trx_commit=[1,2]&#39;" in page
    assert "only an experiment that changes one of them on purpose shows which" in page
    assert "None, or next to none, on either side: temporary tables on disk." in page


def test_an_effect_without_a_cost_that_explains_it_says_so(tmp_path: Path) -> None:
    folder = study(tmp_path / "s", CostsRecord(costs=COSTS), "lower")
    (found,) = accompanied(StudyResult.load(folder), CostsRecord(costs=COSTS))
    assert not found.named
    assert found.sentences == ("No counted cost changed beyond noise and far enough to account for this effect.",)
    assert found.commands == ()


def test_without_an_effect_no_cause_is_looked_for(tmp_path: Path) -> None:
    page = render_page(study(tmp_path / "s", CostsRecord(costs=COSTS), "inconclusive"))
    assert "What a transaction costs" in page
    assert "so no cause is looked for" in page
    assert "Accompanied by" not in page


def test_copies_that_differ_are_the_reason_that_no_cost_is_compared(tmp_path: Path) -> None:
    record = CostsRecord(costs=COSTS, alarm="two copies of glibc differ by 9 % in fsyncs")
    page = render_page(study(tmp_path / "s", record, "lower"))
    assert "No cost is compared: two copies of glibc differ by 9" in page


def test_changes_are_percentages_or_factors() -> None:
    assert change_text(COSTS[0]) == "× 120"
    assert interval_text(COSTS[0]) == "× 110 … 130"
    assert change_text(cost("fsyncs", 1.0, 0.1, 0.1, beyond=True)) == "÷ 10"
    assert change_text(COSTS[1]).startswith("−1.5")
    assert value_text("bytes_sent", 39500.0) == "38.6\u00a0KiB"
    assert value_text("fsyncs", 0.0002) == "0"
