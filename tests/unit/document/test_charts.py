"""The charts: golden SVG for each kind, and the rules that keep them readable."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import mydyno
from mydyno.across.history_document import SPARK_HEIGHT, LevelLine, StudyPoint, history_chart, sparkline
from mydyno.analysis.scalability import Swept, latency_chart, scalability_chart
from mydyno.document.drawing import (
    COLOURS,
    DASHES,
    SHAPES,
    Linear,
    SweepSeries,
    area,
    arm_styles,
    copy_style,
    level_positions,
    marker,
    nice_ticks,
    polyline,
    sweep_chart,
    tick_decimals,
    value_ticks,
)
from mydyno.document.forest import ForestGroup, ForestRow, forest_chart, shortened
from mydyno.reports.sections.answer import Column, answer_picture
from mydyno.reports.sections.over_time import ClockPanel, Mark, clock_chart
from mydyno.wording.numbers import (
    DisplayUnit,
    display_unit,
    level_percent,
    metric_name,
    p_value,
    percent,
    signed_percent,
    significant,
)
from tests.support.golden import check_golden

STYLES = arm_styles(("glibc", "jemalloc"))
GLIBC, JEMALLOC = STYLES["glibc"], STYLES["jemalloc"]
RATE = DisplayUnit(1000.0, "k/s")


def columns() -> list[Column]:
    """Two metrics at one step: a gain, an open effect, one that is not measurable, one without a verdict."""
    group = ForestGroup(
        "read_only, 16 connections",
        (
            ForestRow(JEMALLOC, 0.086, 0.071, 0.102, (0.08, 0.09), "+8.6 % → 9.77  ▲ higher", css="better"),
            ForestRow(JEMALLOC, 0.01, -0.9, 4.0, (), "+1.0 % → 9.09  ? inconclusive", css="open"),
            ForestRow(JEMALLOC, None, None, None, (), "∅ not measurable", css="plain"),
        ),
        0.013,
    )
    plain = replace(group, rows=tuple(replace(row, word="−1.0 % → 4.95", css="plain") for row in group.rows))
    return [
        Column("QPS", "more is better", 0.02, ("9.00 k/s",), (group,)),
        Column("p99", "less is better, no verdict", None, ("5.00 ms",), (plain,)),
    ]


def charts() -> dict[str, str]:
    """One small chart of each kind."""
    sweep = [
        SweepSeries(GLIBC, ((16, 8000.0, True), (16, 8100.0, True), (32, 12000.0, True), (32, 9000.0, False))),
        SweepSeries(copy_style(GLIBC), ((16, 8050.0, True),)),
        SweepSeries(JEMALLOC, ((16, 9000.0, True), (32, 13000.0, True))),
    ]
    rows = (
        ForestRow(JEMALLOC, 0.086, 0.071, 0.102, (0.08, 0.09), "▲ higher", 0.0951),
        ForestRow(JEMALLOC, 0.01, -0.9, 4.0, (), "? inconclusive"),
        ForestRow(JEMALLOC, None, None, None, (), "∅ not measurable"),
    )
    laws = [
        Swept(
            GLIBC,
            ((1, 400.0), (8, 2200.0), (64, 3500.0)), ((1.0, 410.0), (8.0, 2150.0), (64.0, 3510.0)), 35.0,
            ((400.0, 2500.0), (2200.0, 3600.0), (3500.0, 18_000.0)),
        ),
        Swept(
            JEMALLOC,
            ((1, 400.0), (8, 2300.0), (64, 6100.0)), ((1.0, 400.0), (8.0, 2310.0), (64.0, 6080.0)), None,
            ((400.0, 2400.0), (2300.0, 3500.0), (6100.0, 10_500.0)),
        ),
    ]  # fmt: skip
    return {
        "scalability": scalability_chart("scalability:0", "TPS", "two laws", RATE, laws, [1, 8, 64]),
        "scalability-latency": latency_chart(
            "scalability-latency:0", "p99", "two arms", (RATE, DisplayUnit(1000.0, "ms")), laws, "TPS"
        ),
        "sweep": sweep_chart("sweep:qps:ro", "QPS", "two arms", RATE, sweep, [16, 32], ceilings={"1gbit": 14_000.0}),
        "forest": forest_chart("forest:qps:ro", "QPS", "effects", [ForestGroup("16 connections", rows, 0.013)], 0.02),
        "history": history_chart(
            "history:effect:qps",
            "QPS",
            "over studies",
            [
                StudyPoint(0.02, 0.01, 0.03, "2026-11-01", "one <study>"),
                StudyPoint(0.07, 0.05, 0.09, "2026-11-02", "two"),
            ],
            [LevelLine(0, 0, 0.02, 0.01, 0.03), LevelLine(1, 1, 0.07, 0.05, 0.09)],
            None,
        ),
        "picture": answer_picture("answer", "jemalloc is faster.", "numbers", "glibc", columns(), 1120),
        "picture-narrow": answer_picture("answer:narrow", "jemalloc is faster.", "numbers", "glibc", columns(), 350),
        "clock": clock_chart(
            "clock",
            "QPS of each slice",
            "two blocks",
            [
                ClockPanel("QPS", RATE, 120, [Mark(1.0, 8000.0, GLIBC), Mark(12.0, 9000.0, JEMALLOC)]),
                ClockPanel("CPU time of other programs", DisplayUnit(1.0, "%"), 64, strokes=[(1.0, 4.0), (12.0, 30.0)]),
            ],
            [(1, 0.0, 10.0), (2, 11.0, 21.0)],
        ),
    }


def test_a_control_without_a_copy_has_no_row_for_it() -> None:
    alone = [replace(one, groups=tuple(replace(group, noise=None) for group in one.groups)) for one in columns()]
    picture = answer_picture("answer", "jemalloc is faster.", "numbers", "glibc", alone, 1120)
    assert "glibc again" not in picture and "A/A noise" not in picture
    assert "glibc again" in charts()["picture"]


@pytest.mark.parametrize("kind", list(charts()))
def test_a_chart_is_as_the_golden_file(kind: str) -> None:
    check_golden(f"chart-{kind}.svg", charts()[kind] + "\n")


@pytest.mark.parametrize("kind", list(charts()))
def test_a_chart_is_well_formed_titled_described_and_without_colours_of_its_own(kind: str) -> None:
    svg = charts()[kind]
    root = ElementTree.fromstring(svg)
    namespace = "{http://www.w3.org/2000/svg}"
    title, description = root.find(f"{namespace}title"), root.find(f"{namespace}desc")
    assert title is not None and title.text and description is not None and description.text
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb\(", svg)
    assert not re.search(r"\bnan\b|\binf\b|None", svg, re.IGNORECASE)


@pytest.mark.parametrize("kind", list(charts()))
def test_nothing_but_text_ends_leaves_the_picture(kind: str) -> None:
    root = ElementTree.fromstring(charts()[kind])
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for data in (str(path.get("d")) for path in root.iter("{http://www.w3.org/2000/svg}path")):
        for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", data):
            assert 0 <= float(x) <= width and 0 <= float(y) <= height, data


@pytest.mark.parametrize(
    "kind",
    [
        "scalability",
        "scalability-latency",
        "forest",
        "sweep",
        "picture",
        "picture-narrow",
        "clock",
    ],
)
def test_labels_of_a_chart_do_not_overlap(kind: str) -> None:
    """Texts on one line, with an average width of 0.56 em, must not touch."""
    root = ElementTree.fromstring(charts()[kind])
    lines: dict[float, list[tuple[float, float, str]]] = {}
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        words = text.text or ""
        wide = len(words) * 13 * 0.52
        x = float(str(text.get("x")))
        start = x - {"start": 0.0, "middle": wide / 2, "end": wide}[str(text.get("text-anchor") or "start")]
        lines.setdefault(float(str(text.get("y"))), []).append((start, start + wide, words))
    for boxes in lines.values():
        boxes.sort()
        for (_, end, before), (start, _, after) in pairwise(boxes):
            assert end <= start + 1, (before, after)


@pytest.mark.parametrize("heading", ["QPS", "Resident memory (RSS), 128 connections", "x" * 90])
@pytest.mark.parametrize("values", [(1.05, 1.1), (0.0, 2.0)])
def test_a_long_heading_stands_above_the_unit(heading: str, values: tuple[float, float]) -> None:
    series = SweepSeries(GLIBC, tuple((16, value, True) for value in values))
    svg = sweep_chart("k", heading, "d", DisplayUnit(1.0, "GiB"), [series], [16])
    words = [text.text or "" for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")][:2]
    assert len(words[0]) * 7.8 < 356 and words[0][:38] == heading[:38]
    assert words[1].startswith("GiB") and ("axis" in words[1]) == (values[0] > 0)


def test_text_from_outside_is_escaped_in_a_chart() -> None:
    style = arm_styles(("<script>alert(1)</script>",))["<script>alert(1)</script>"]
    row = ForestRow(style, 0.1, 0.0, 0.2, (), 'a"b&c')
    svg = forest_chart("k", "<b>", "]]>", [ForestGroup("<i>\x00", (row,))], 0.02)
    ElementTree.fromstring(svg)
    assert "<script" not in svg and "<b>" not in svg and "<i>" not in svg


def test_long_names_lose_their_middle_and_stay_apart() -> None:
    names = [
        f"bandwidth-{a}_compression-{b}_tls-{c}" for a in ("1g", "10g") for b in ("on", "off") for c in ("on", "off")
    ]
    short = [shortened(name, 29) for name in names]
    assert all(len(name) <= 29 and "…" in name for name in short)
    assert len({shortened(name.replace("compression", "comp"), 29) for name in names}) == len(names)
    assert shortened("glibc", 5) == "glibc"


def test_each_arm_differs_from_every_other_by_colour_or_by_shape_and_dash() -> None:
    names = tuple(f"arm{index}" for index in range(20))
    styles = list(arm_styles(("control", *names)).values())
    assert styles[0].name == "control" and "control" in styles[0].label
    assert len({(style.colour, style.shape, style.dash) for style in styles}) == len(styles)
    assert (
        len({style.shape for style in styles[:COLOURS]}) == len({style.dash for style in styles[:COLOURS]}) == COLOURS
    )
    assert len(SHAPES) == len(DASHES) == COLOURS


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.93, 1.07), (-0.052, 0.13), (7.1e9, 7.4e9), (5, 5), (0, 0)])
def test_ticks_are_few_round_and_enclose_the_values(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low and ticks[-1] >= high and 2 <= len(ticks) <= 9
    decimals = tick_decimals(ticks)
    assert len({f"{tick:.{decimals}f}" for tick in ticks}) == len(ticks)


def test_values_start_from_zero_only_where_that_costs_less_than_half_of_the_height() -> None:
    assert value_ticks([8_000, 18_000])[0] == 0
    assert value_ticks([1.05, 1.1])[0] > 1
    assert value_ticks([1.05, 1.1], from_zero=True)[0] == 0
    assert value_ticks([0, 0]) == [0.0, 1.0]
    flat = value_ticks([100.0, 100.01])
    assert flat[-1] - flat[0] >= 2, "a flat line is not blown up to the whole height"


def test_scales_keep_to_their_pixels_when_clamped_and_centre_a_single_value() -> None:
    scale = Linear(0, 10, 100, 200)
    assert (scale(5), scale.clamp(99), scale.clamp(-1)) == (150, 200, 100)
    assert Linear(3, 3, 0, 10)(3) == 5
    assert level_positions([16], 0, 100) == {16: 50}
    assert level_positions([1, 2, 4], 0, 100) == {1: 0, 2: 50, 4: 100}


def test_lines_break_at_gaps_and_a_lone_point_is_still_drawn() -> None:
    assert polyline([(0, 0), (1, 2), None, (5, 5)]) == "M0 0h0l1 2M5 5h0"
    assert area([(0, 1), (1, 1), None, (3, 1)], [(0, 0), (1, 0), None, (3, 0)]) == "M0 1l1 0l0 -1l-1 0z"


@pytest.mark.parametrize("shape", [*SHAPES, "dot"])
def test_every_marker_is_drawn_around_its_point(shape: str) -> None:
    assert marker(shape, 10, 20, 3).startswith("M10 20")


def test_units_suit_the_size_of_the_numbers() -> None:
    assert display_unit("server_rss_bytes", 1.5 * 2**30).text(1.5 * 2**30) == "1.50\u00a0GiB"
    assert display_unit("disk_write_bytes_per_s", 38e6).label == "MiB/s"
    assert display_unit("qps", 18_000).text(17_957.68) == "18.0\u00a0k/s"
    assert display_unit("latency_p99_us", 12_300).label == "ms"
    assert display_unit("server_rss_growth_per_million_queries", 1.017).text(1.0172) == "1.017"
    assert display_unit("cpu_user_pct", 91).text(91.25) == "91.2\u00a0%"
    assert display_unit("unknown", 3, "apples").label == "apples"
    assert display_unit("qps", 0).label == "/s"


def test_no_interval_has_a_level_of_100_percent() -> None:
    shown = [level_percent(alpha).replace("\u202f", " ") for alpha in (0.05, 0.036, 0.004, 0.0005, 0.00004)]
    assert shown == ["95 %", "96.4 %", "99.6 %", "99.95 %", "99.996 %"]


def test_numbers_have_sensible_digits() -> None:
    assert [significant(value) for value in (0, 0.01234, 1.234, 123.4, 123456, -5)] == [
        "0", "0.0123", "1.23", "123", "123\u202f456", "\u22125.00",
    ]  # fmt: skip
    assert significant(float("nan")) == "–"
    assert [signed_percent(value) for value in (9.0, 9.5, 21.4, 998.0, 5e4)] == [
        "+900\u202f%",
        "×10.5",
        "×22",
        "×999",
        ">×1\u202f000",
    ]
    assert [signed_percent(value) for value in (0.0864, -0.0005, 1.5, 0.0)] == [
        "+8.6\u202f%", "\u22120.05\u202f%", "+150\u202f%", "0.00\u202f%",
    ]  # fmt: skip
    assert (percent(0.02), percent(0.0125)) == ("2\u202f%", "1.2\u202f%")
    assert (p_value(None), p_value(0.0004), p_value(0.05)) == ("–", "<0.001", "0.050")


def test_with_a_ceiling_the_axis_begins_at_zero_and_holds_it() -> None:
    def chart(**ceilings: float) -> str:
        series = SweepSeries(GLIBC, ((16, 100.0, True), (32, 110.0, True)))
        return sweep_chart("k", "h", "d", DisplayUnit(1.0, "/s"), [series], [16, 32], ceilings=ceilings)

    bounded, beyond = chart(small=138.0), chart(large=880.0)
    assert "axis not from 0" in beyond and "large" not in beyond, "it would flatten everything below it"
    assert "axis not from 0" not in bounded and 'class="ceiling"' in bounded
    assert "small: 138\u00a0/s" in bounded and ">150<" in bounded


def test_metrics_have_names_for_people() -> None:
    assert metric_name("server_vsize_bytes") == "Virtual memory (VSIZE)"
    assert metric_name("innodb_row_lock_waits_per_s") == "InnoDB row lock waits"
    assert metric_name("server_cpu_us_per_transaction") == "CPU per transaction, server"
    assert display_unit("server_cpu_us_per_transaction", 2500.0).text(2500.0) == "2.50\u00a0ms"
    assert display_unit("network_bytes_per_transaction", 42_000.0).text(43_008.0) == "42.0\u00a0KiB"
    assert metric_name("network_rx_bytes_per_s") == "Network received"


@pytest.mark.parametrize("metric", ["tpmc", "tpmc_per_instance", "tpmc_instance_2", "tpmc_worst_instance"])
def test_tpmc_is_an_absolute_number(metric: str) -> None:
    assert display_unit(metric, 16766.7, "1/min").text(16766.7) == "16\u202f767\u00a0TpmC"


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("values", [(0.01, 0.04, -0.02), (1e9, 1.00001e9), (0.0, 0.0), (1e-5, 2e-5), (5.0, 5.0)])
def test_a_sparkline_stays_in_its_height_and_its_words_are_text(values: tuple[float, ...], zero: bool) -> None:
    drawn = ElementTree.fromstring(sparkline(values, "<script>\"'&", zero))
    assert drawn.get("aria-label") == "<script>\"'&"
    paths = {path.get("class"): path.get("d") or "" for path in drawn.iter("path")}
    assert set(paths) == {"line", "last"} | ({"zero"} if zero else set())
    heights = [float(re.split("[ H]", paths[name].removeprefix("M"))[1].partition("h")[0]) for name in paths]
    assert all(0 < height < SPARK_HEIGHT for height in heights)
    assert sparkline(values[:1], "", zero) == ""


def test_no_text_of_a_page_is_smaller_than_13_pixels() -> None:
    every = [
        path.read_text() for path in Path(mydyno.__file__).parent.rglob("assets/*.[cj]s*") if "uPlot" not in path.name
    ]
    sizes = re.findall(r"font(?:-size)?: ?\"?(?:clamp\()?([\d.]+)(rem|px)", "".join(every))
    assert len(sizes) > 40
    assert [size for size, unit in sizes if float(size) * (16 if unit == "rem" else 1) < 13] == []
