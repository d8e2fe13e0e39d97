"""The mean service time of a step: from dynoload's final record, and of several drivers together."""

from __future__ import annotations

from mydyno.drivers.base import DriverOutcome, merged
from mydyno.drivers.held import result_of
from mydyno.model.stored.records import DriverResult

FINAL = {
    "counts": {"transactions": 3, "reads": 3, "writes": 0, "other": 0, "errors": 0, "ignored_errors": 0,
               "reconnects": 0},
    "whole_load_counts": {"transactions": 3, "reads": 3, "writes": 0, "other": 0},
    "queries": 3, "duration_s": 1.0, "cpu": {}, "verdict": {"verdict": "VALID", "findings": []},
    "response": {"count": 3, "mean_us": 900.0},
}  # fmt: skip


def test_the_service_time_of_the_final_record_is_kept() -> None:
    result = result_of({**FINAL, "service": {"count": 3, "mean_us": 400.0}}, "1", ())
    assert (result.latency_us["mean"], result.service_us) == (900.0, 400.0)
    assert result_of({**FINAL, "service": {"count": 0}}, "1", ()).service_us is None
    assert result_of(FINAL, "1", ()).service_us is None


def outcome(transactions: int, service_us: float | None) -> DriverOutcome:
    result = DriverResult(
        driver="dynoload", version="1", command=(), transactions=transactions, queries=1, duration_s=1,
        service_us=service_us,
    )  # fmt: skip
    return DriverOutcome(result, (), 0, ())


def test_the_service_time_of_several_drivers_is_weighted_by_transactions() -> None:
    assert merged([outcome(300, 100.0), outcome(100, 500.0)], None, None).service_us == 200.0
    assert merged([outcome(300, 100.0), outcome(100, None)], None, None).service_us is None
