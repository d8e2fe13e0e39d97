"""Formatting of numbers: names of metrics, units suitable for the size, significant digits. Used by reports only."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from mydyno.language import percent_sign, tr
from mydyno.model.metrics import split_instance, worded_source

NARROW_SPACE = "\u202f"
MINUS = "\u2212"

_SUFFIXES = ("_bytes_per_s", "_per_s", "_bytes", "_pct", "_us", "_ms", "_s")
_WORDS = {
    "cpu": "CPU",
    "innodb": "InnoDB",
    "io": "I/O",
    "numa": "NUMA",
    "oom": "OOM",
    "psi": "PSI",
    "pss": "PSS",
    "rss": "RSS",
    "rx": "received",
    "tcp": "TCP",
    "thp": "THP",
    "tx": "sent",
    "vsize": "VSIZE",
}


def metric_name(metric: str, workloads: Collection[str] = ()) -> str:
    """A metric's name for a heading in a study of these workloads (each once): its label, or else the stored name
    without its unit.
    """
    whole_run, instance = split_instance(metric)
    if instance is not None:
        return tr("{metric}, instance {instance}", metric=metric_name(whole_run, workloads), instance=instance)
    known = worded_source(metric, workloads)
    if known is not None and known.label:
        return tr(known.label)
    base = next((metric[: -len(suffix)] for suffix in _SUFFIXES if metric.endswith(suffix)), metric)
    words = " ".join(_WORDS.get(word, word) for word in base.split("_"))
    return tr(words[:1].upper() + words[1:])


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """A unit to print in: stored value = printed number x divisor."""

    divisor: float
    label: str

    def number(self, value: float, digits: int = 3) -> str:
        """The number alone in this unit, with that many significant digits."""
        return significant(value / self.divisor, digits)

    def text(self, value: float, digits: int = 3) -> str:
        """The number with its unit, not to be broken across lines."""
        return self.number(value, digits) + (f"\u00a0{self.label}" if self.label else "")


def display_unit(metric: str, magnitude: float, unit: str = "") -> DisplayUnit:
    """The unit in which values of about this magnitude read best; `unit` is the stored unit of an unknown metric."""
    magnitude = abs(magnitude)
    metric, _ = split_instance(metric)
    if metric.endswith(("_bytes", "_bytes_per_s")) or unit in ("bytes", "bytes/s"):
        per = "/s" if metric.endswith("_per_s") or unit == "bytes/s" else ""
        return _largest(magnitude, [(1024.0**power, f"{name}{per}") for power, name in enumerate(_BINARY)])
    if metric.endswith("_bytes_per_transaction"):
        return _largest(magnitude, [(1024.0**power, name) for power, name in enumerate(_BINARY)])
    if metric.endswith(("_us", "_us_per_transaction", "_us_per_query")):
        return _largest(magnitude, [(1.0, "µs"), (1e3, "ms"), (1e6, "s")])
    if metric.endswith("_ms"):
        return _largest(magnitude, [(1.0, "ms"), (1e3, "s")])
    if metric.endswith("_pct"):
        return DisplayUnit(1.0, "%")
    if metric.endswith("_s") and not metric.endswith("_per_s"):
        return DisplayUnit(1.0, "s")
    per = "/min" if metric == "tpmc" else "/s" if _is_rate(metric, unit) else ""
    return _largest(magnitude, [(1.0, per.strip() or unit), (1e3, f"k{per}"), (1e6, f"M{per}"), (1e9, f"G{per}")])


_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def _is_rate(metric: str, unit: str) -> bool:
    return metric in ("qps", "tps") or metric.endswith("_per_s") or unit.endswith("/s")


def _largest(magnitude: float, steps: list[tuple[float, str]]) -> DisplayUnit:
    fitting = [step for step in steps if step[0] <= magnitude] or steps[:1]
    return DisplayUnit(*fitting[-1])


def significant(value: float, digits: int = 3) -> str:
    """Plain decimal with that many significant digits, never an exponent; whole digits are never rounded away."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{abs(value):.{min(places, 6)}f}"
    whole, _, fraction = text.partition(".")
    if len(whole) > 4:
        whole = f"{int(whole):,}".replace(",", NARROW_SPACE)
    text = f"{whole}.{fraction}" if fraction else whole
    return f"{MINUS}{text}" if value < 0 and float(f"{abs(value):.6f}") else text


def whole(value: float) -> str:
    """A whole number with a thin space between thousands."""
    return f"{value:,.0f}".replace(",", NARROW_SPACE)


def signed_percent(share: float, decimals: int | None = None) -> str:
    """A share of 1 as a signed percentage, e.g. "+8.6 %"; one decimal below 100 %, two below 0.1 %, a factor from
    ten times as much on: "×12".
    """
    if not math.isfinite(share):
        return "–"
    percent = share * 100
    if percent > 900:
        factor = 1 + share
        return f"×{factor:.{1 if factor < 20 else 0}f}" if factor < 1000 else f">×1{NARROW_SPACE}000"
    if decimals is None:
        decimals = 0 if abs(percent) >= 100 else 1 if abs(percent) >= 0.1 else 2
    text = f"{abs(percent):.{decimals}f}"
    sign = "" if not float(text) else MINUS if percent < 0 else "+"
    return f"{sign}{text}{percent_sign(NARROW_SPACE)}"


def percent(share: float) -> str:
    """A share of 1 as an unsigned percentage, e.g. "2 %" or "0.7 %"."""
    text = significant(round(share * 100, 6), 2)
    return f"{text.removesuffix('.0')}{percent_sign(NARROW_SPACE)}"


def level_percent(alpha: float) -> str:
    """The level of an interval that keeps an error rate: "95 %", "96.9 %"."""
    return f"{100 * (1 - alpha):.3g}{percent_sign(NARROW_SPACE)}"


def p_value(p: float | None) -> str:
    """A p-value: three decimals, "<0.001" below, a dash where there is none."""
    if p is None or not math.isfinite(p):
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
