"""The precision to be expected, in the words of a progress line."""

from __future__ import annotations

from mydyno.evaluation.facts import Precision, precision_words
from mydyno.wording.verdicts import column_name

WIDTHS = {"tps": 0.097, "server_cpu_us_per_transaction": 0.108}


def test_a_progress_line_names_metrics_in_words() -> None:
    said = precision_words(Precision(6, 2, WIDTHS, frozenset({"oltp_read_only"})))
    assert said == "expected at 6 blocks: ±9.7 % of transactions per second, ±11 % of CPU per transaction"


def test_a_progress_line_names_the_cost_of_a_query_once() -> None:
    widths = {"qps": 0.05, "server_cpu_us_per_query": 0.03}
    said = precision_words(Precision(6, 2, widths))
    assert said == "expected at 6 blocks: ±5 % of queries per second, ±3 % of CPU per query"
    wide = precision_words(Precision(6, 2, {"qps": 0.56}))
    assert wide == "expected at 6 blocks: a factor of 1.6 of queries per second", "as in every other line"


def test_where_every_step_connects_line_and_table_speak_of_connections() -> None:
    said = precision_words(Precision(6, 2, WIDTHS, frozenset({"connect"})))
    assert said == "expected at 6 blocks: ±9.7 % of connections per second, ±11 % of CPU per connection"
    assert [column_name(metric, ("connect",)) for metric in WIDTHS] == [
        "Connections per second", "CPU per connection, server",
    ]  # fmt: skip
    assert column_name("tps", ("connect", "tpcc")) == "TPS"
