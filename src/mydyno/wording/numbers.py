"""Numbers, sizes, times, percentages and intervals as they are printed, and names of metrics.

Effects have one decimal, in sentences (`size`, `signed`) as in tables and charts (`signed_percent`); what an interval
could be (`plus_minus`) and other shares (`percent`) have two digits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from mydyno.language import agreed
from mydyno.model.metrics import GROWTH, split_instance, worded_source
from mydyno.results.precision import MOST_PROMISED, MOST_S

NARROW_SPACE = "\u202f"
PERCENT = f"{NARROW_SPACE}%"
MINUS = "\u2212"
NONE = "–"
"""Where there is no number."""
LARGEST_FACTOR = 99
"""A larger one says no more."""
ALIKE = 1.5
"""Ratio of half-widths up to which one number says them all."""
MOST_NAMES = 4
"""Arms that a sentence names; of more it gives the number."""
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
STEPS = {10 * MINUTE: MINUTE, HOUR: 5 * MINUTE, 5 * HOUR: 0.5 * HOUR}
"""{up to so long: what a time to wait is a multiple of}; hours beyond."""

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
        return f"{metric_name(whole_run, workloads)}, instance {instance}"
    known = worded_source(metric, workloads)
    if known is not None and known.label:
        return known.label
    base = next((metric[: -len(suffix)] for suffix in _SUFFIXES if metric.endswith(suffix)), metric)
    words = " ".join(_WORDS.get(word, word) for word in base.split("_"))
    return words[:1].upper() + words[1:]


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """A unit to print in: stored value = printed number x divisor."""

    divisor: float
    label: str
    least_digits: int = 0
    """Significant digits below which the number says nothing."""

    def number(self, value: float, digits: int = 3) -> str:
        """The number alone in this unit, with that many significant digits."""
        return significant(value / self.divisor, max(digits, self.least_digits))

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
    if metric == GROWTH:
        return DisplayUnit(1.0, "", least_digits=4)
    if metric.startswith("tpmc"):
        return DisplayUnit(1.0, "TpmC")
    per = "/s" if _is_rate(metric, unit) else ""
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
        return NONE
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
        return NONE
    percent = share * 100
    if percent > 900:
        factor = 1 + share
        return f"×{factor:.{1 if factor < 20 else 0}f}" if factor < 1000 else f">×1{NARROW_SPACE}000"
    if decimals is None:
        decimals = 0 if abs(percent) >= 100 else 1 if abs(percent) >= 0.1 else 2
    text = f"{abs(percent):.{decimals}f}"
    sign = "" if not float(text) else MINUS if percent < 0 else "+"
    return f"{sign}{text}{NARROW_SPACE}%"


def percent(share: float) -> str:
    """A share of 1 as an unsigned percentage, e.g. "2 %" or "0.7 %"."""
    text = significant(round(share * 100, 6), 2)
    return f"{text.removesuffix('.0')}{NARROW_SPACE}%"


def level_percent(alpha: float) -> str:
    """The level of an interval that keeps an error rate: "95 %", "96.9 %", "99.95 %"."""
    return f"{100 - float(f'{100 * alpha:.2g}'):.6g}{NARROW_SPACE}%"


def p_value(p: float | None) -> str:
    """A p-value: three decimals, "<0.001" below, a dash where there is none."""
    if p is None or not math.isfinite(p):
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def change(ratio: float | None) -> float | None:
    """A ratio as a share of 1 more or less."""
    return None if ratio is None else ratio - 1.0


def ratio_interval(low: float | None, high: float | None) -> str:
    """An interval of a ratio, e.g. "+1.1 … +7.4 %"; empty without one."""
    if low is None or high is None:
        return ""
    return f"{signed_percent(low - 1).removesuffix(PERCENT)} … {signed_percent(high - 1)}"


def time_text(us: float) -> str:
    """A time per transaction."""
    if us == 0.0:
        return "0"
    return display_unit("_us", max(abs(us), 1.0)).text(us, 2 if abs(us) < 10 else 3)


def signed_time(us: float) -> str:
    """A difference of times."""
    return ("+" if us > 0 else "") + time_text(us)


def time_interval(low_us: float | None, high_us: float | None) -> str:
    """The interval of a difference of times, e.g. "+180 … +240 µs"; a dash for none."""
    if low_us is None or high_us is None:
        return NONE
    unit = display_unit("_us", max(abs(low_us), abs(high_us), 1.0))
    low, high = (("+" if value > 0 else "") + significant(value / unit.divisor, 2) for value in (low_us, high_us))
    return f"{low} … {high}\u00a0{unit.label}"


def latency_text(us: float) -> str:
    """A time of three digits."""
    return display_unit("_us", max(1.0, us)).text(us, 3)


def signed_count(count: float) -> str:
    """A difference of counts per transaction."""
    return ("+" if count > 0 else "") + (significant(count, 2) if count else "0")


def count_interval(low: float | None, high: float | None) -> str:
    """The interval of a difference of counts; a dash for none."""
    return NONE if low is None or high is None else f"{signed_count(low)} … {signed_count(high)}"


def size(share: float) -> str:
    """A share of 1 as a percentage without sign: one decimal below 100 % unless that is 0, two below 0.1 %."""
    percent = abs(share) * 100
    decimals = 0 if percent >= 99.95 or percent < 0.005 else 1 if percent >= 0.095 else 2
    text = f"{percent:.{decimals}f}"
    return f"{text.removesuffix('.0') if decimals == 1 else text} %"


def share_range(shares: Collection[float]) -> str:
    """Shares of something: "8 %", "41 to 53 %"."""
    low, high = (percent(pick(shares)).replace(NARROW_SPACE, " ") for pick in (min, max))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def size_range(shares: Collection[float]) -> str:
    """Sizes without sign: "8 %", "4.1 to 8 %"."""
    low, high = size(min(shares, key=abs)), size(max(shares, key=abs))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def signed(share: float) -> str:
    """A share of 1 as a signed percentage, e.g. "+4.2 %"; a factor from ten times as much on."""
    if share > 9:
        return f"×{1 + share:.0f}" if share < 999 else "more than ×1000"
    sign = "" if abs(share) < 0.00005 else "+" if share > 0 else MINUS
    return sign + size(share)


def effect_text(ratio: float | None) -> str:
    """A ratio as a signed change; empty without one."""
    return "" if ratio is None else signed(ratio - 1.0)


def bounds_text(low: float | None, high: float | None) -> str:
    """Its bounds as signed changes; empty without them."""
    return "" if low is None or high is None else f"{signed(low - 1.0)} … {signed(high - 1.0)}"


def shows_plain(effects: Iterable[tuple[float | None, float | None]]) -> bool:
    """Whether the adjustment for the host's speed changed any of (effect, plain effect) as it is printed."""
    return any(effect_text(plain) not in ("", effect_text(ratio)) for ratio, plain in effects)


def change_words(ratio: float, low: float | None, high: float | None) -> str:
    """A ratio with its interval as changes, e.g. "+35 % (between +30 % and +40 %)"; without one the change alone."""
    change = signed(ratio - 1)
    return change if low is None or high is None else f"{change} (between {signed(low - 1)} and {signed(high - 1)})"


def plus_minus(share: float) -> str:
    """A margin, or a difference: "±2 %", "±0.5 %", "±14 %"."""
    percent = share * 100
    text = f"{percent:.0f}" if percent >= 9.95 else f"{percent:.2g}"
    return f"±{text.removesuffix('.0')} %"


def margin_text(share: float) -> str:
    """A declared margin with all its digits: "±2 %", "±1.25 %"."""
    return f"±{share * 100:.6g} %"


def limit_text(ratio: float) -> str:
    """A declared limit as a signed change with all its digits: "−2.25 %"."""
    share = round(ratio - 1.0, 9)
    return f"{MINUS if share < 0 else '+' if share > 0 else ''}{abs(share) * 100:.6g} %"


def half_width_text(share: float) -> str:
    """The half-width of an interval: "±2 %"; above 20 %, where it is not the same in both directions, a factor."""
    if share <= MOST_PROMISED:
        return plus_minus(share)
    return f"a factor of {min(1 + share, LARGEST_FACTOR):.2g}"


def noise_text(share: float) -> str:
    """A noise floor in a table or chart: "±1.9 %"; above 20 % a factor."""
    return f"±{percent(share)}" if share <= MOST_PROMISED else half_width_text(share)


def half_widths_text(widths: Sequence[float]) -> str:
    """The half-widths of contrasts: the widest where they are much alike, else their median with their range."""
    low, high = min(widths), max(widths)
    if high <= ALIKE * low:
        return half_width_text(high)
    return f"{half_width_text(median(widths))} ({half_width_text(low)} to {half_width_text(high)})"


def blocks(count: int) -> str:
    """1 block, 2 blocks."""
    return agreed(f"{count} blocks")


def duration_words(duration_s: float) -> str:
    """A time to wait, in round numbers: "4 minutes", "25 minutes", "3 hours", "5 days"."""
    if duration_s < HOUR:
        step = 1 if duration_s <= 10 * MINUTE else 5
        minutes = max(1, step * round(duration_s / MINUTE / step))
        if minutes < 60:
            return "1 minute" if minutes == 1 else f"{minutes} minutes"
        return "1 hour"
    if duration_s < 36 * HOUR:
        hours = duration_s / HOUR
        text = f"{round(hours * 2) / 2:g}" if hours < 5 else f"{round(hours)}"
        return f"{text} {'hour' if text == '1' else 'hours'}"
    days = round(duration_s / DAY)
    return f"{days} days" if duration_s <= MOST_S else "more than a week"


def option_s(duration_s: float) -> float:
    """Rounded up to what duration_words says: minutes, 5 minutes from 10 on, half hours from 1 on, hours from 5 on."""
    unit = next((unit for most, unit in STEPS.items() if duration_s <= most), HOUR)
    return unit * max(1, math.ceil(duration_s / unit - 1e-9))


def duration_option(duration_s: float) -> str:
    """A value of --time, rounded up: "25m", "150m", "3h"."""
    hours, rest_s = divmod(round(option_s(duration_s)), round(HOUR))
    return f"{hours * 60 + rest_s // 60}m" if rest_s else f"{hours}h"


def rate_words(per_s: float) -> str:
    """A rate with three digits: 12,300; 87.4."""
    digits = 3 - len(f"{per_s:.0f}")
    return f"{round(per_s, digits):,.{max(0, digits)}f}"


def when(unix_ns: int) -> str:
    """Date and minute, UTC."""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
