"""The driver's own checks of its result: wrong values, another share of hits, other statements than the server counted.

What the server did to a load at a rate (unfinished, dropped) is the arm's failure, and what a busy host did to the
driver (lag, cpu_wait, network) is a warning: neither fails this check. A saturated driver fails driver_cpu, and
missing rows fail not_found.
"""

from __future__ import annotations

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.stored.reasons import Reason

OF_THE_ARM = ("unfinished", "dropped")
"""Rules of dynoload that show what the server did."""
OF_THE_HOST = ("lag", "cpu_wait", "network")
"""Rules that show what the host did to the driver."""
OF_THE_DRIVER = ("cpu",)
"""Rules that show that the driver was measured, not the server."""
OF_THE_DATA = ("missing_rows",)
"""Rules that not_found applies, with a bound of its own."""
ELSEWHERE = (*OF_THE_ARM, *OF_THE_HOST, *OF_THE_DRIVER, *OF_THE_DATA)


def closed(facts: StepFacts) -> Reason | None:
    """Fails where the driver reports its result as invalid, by any other rule."""
    driver = facts.driver
    if driver.health != "invalid":
        return None
    texts = [one.text for one in driver.findings if one.level == "invalid" and one.rule not in ELSEWHERE]
    if driver.findings and not texts:
        return None
    return Reason(gate="driver_health", text=f"{driver.driver}: {'; '.join(texts or driver.health_reasons)}")
