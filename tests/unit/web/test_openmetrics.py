from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from mydyno.execution.live import SERVER_METRICS
from mydyno.model.stored.live import LiveEnded, LiveOpened, LivePrecision, LiveSecond
from mydyno.web import openmetrics
from mydyno.web.openmetrics import Figures, MetricsFile, exposition
from tests.support import ROOT

OPENED = LiveOpened(
    unix_ns=1, study='one "quoted"\n', pid=2, start_ticks=3, boot_id="b", pid_namespace="p", hostname="h",
    design="interleaved",
)  # fmt: skip
SECOND = LiveSecond(
    unix_ns=2, state="slice", block=2, blocks=6, arm="jemalloc", step="a-8", left_s=60.0, qps=1000.0, tps=50.0,
    latency_us={"p50": 1000.0, "p95": 2000.0, "p99": 3000.0}, errors_per_s=0.0, cpu_busy_pct=80.0, cpu_steal_pct=1.5,
    server=dict.fromkeys(SERVER_METRICS, 7.0),
)  # fmt: skip
PRECISION = LivePrecision(unix_ns=3, blocks=6, made=2, half_widths={"tps": 0.02})


def figures() -> Figures:
    found = Figures()
    for record in (OPENED, SECOND, PRECISION):
        found.take(record)
    return found


@pytest.mark.parametrize("families", [openmetrics_families, text_families], ids=["OpenMetrics", "textfile collector"])
def test_the_text_can_be_read_back(families: object) -> None:
    text = exposition([figures()]).decode()
    samples = {
        (one.name, one.labels.get("quantile") or one.labels.get("metric") or ""): one
        for family in families(text)  # type: ignore[operator]
        for one in family.samples
    }
    assert samples["mydyno_latency_seconds", "p99"].value == 0.003
    assert samples["mydyno_queries_per_second", ""].labels == {
        "study": 'one "quoted"\n', "group": "", "arm": "jemalloc", "step": "a-8"
    }  # fmt: skip
    assert samples["mydyno_precision_half_width_ratio", "tps"].value == 0.02
    assert samples["mydyno_study_running", ""].value == 1


def test_several_studies_share_a_family() -> None:
    other = figures()
    other.study = "two"
    text = exposition([figures(), other]).decode()
    assert text.count("# TYPE mydyno_block gauge") == 1
    assert len([line for line in text.splitlines() if line.startswith("mydyno_block{")]) == 2


def test_each_host_group_has_figures_of_its_own() -> None:
    found = figures()
    for group, qps in (("a", 500.0), ("b", 700.0)):
        found.take(SECOND.model_copy(update={"group": group, "qps": qps}))
    (family,) = [one for one in openmetrics_families(exposition([found]).decode())
                 if one.name == "mydyno_queries_per_second"]  # fmt: skip
    assert {one.labels["group"]: one.value for one in family.samples} == {"": 1000.0, "a": 500.0, "b": 700.0}


def test_the_file_is_replaced_as_a_whole_and_says_when_the_study_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "mydyno.prom"
    file = MetricsFile(path)
    for record in (OPENED, SECOND, LiveEnded(unix_ns=4, state="complete")):
        file(record)
    text = path.read_text()
    assert "} 0.0" in next(line for line in text.splitlines() if line.startswith("mydyno_study_running{"))
    assert "mydyno_queries_per_second" not in text, "no load any more"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_was_removed_does_not_end_the_study(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "missing" / "mydyno.prom")(OPENED)


def test_the_dashboard_uses_names_and_labels_that_exist() -> None:
    dashboard = json.loads((ROOT / "docs/guides/grafana-dashboard.json").read_text())
    samples = [one for family in openmetrics_families(exposition([figures()]).decode()) for one in family.samples]
    known = {one.name: set(one.labels) for one in samples}
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    expressions += [one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    used = {}
    for expression in expressions:
        (name,) = openmetrics_names(expression)
        used[name] = expression
        assert name in known, expression
    assert {"mydyno_queries_per_second", "mydyno_latency_seconds", "mydyno_host_cpu_steal_percent"} <= set(used)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            (name,) = openmetrics_names(target["expr"])
            assert set(labels_of(target.get("legendFormat", ""))) <= known[name], target
    described = (ROOT / "docs/guides/serve.md").read_text()
    plain = {name for name in known if not name.startswith(openmetrics.SERVER[0])}
    assert {name for name in plain if f"`{name}`" not in described} == set()


def openmetrics_names(expression: str) -> set[str]:
    return set(re.findall(r"mydyno_\w+", expression))


def labels_of(legend: str) -> list[str]:
    return re.findall(r"\{\{(\w+)\}\}", legend)
