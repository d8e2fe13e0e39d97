"""If the driver uses all the CPU time that it may use, the driver was measured, not the server."""

from __future__ import annotations

from mydyno.model.reasons import Reason
from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> Reason | None:
    """Closed where the driver's CPU time is above gates.driver_cpu of the CPUs that it may use."""
    if facts.driver.cpu_user_s is None or facts.driver.cpu_system_s is None or facts.whole_s <= 0:
        return None
    share = (facts.driver.cpu_user_s + facts.driver.cpu_system_s) / (facts.whole_s * facts.cpus)
    if share <= facts.bounds.driver_cpu:
        return None
    bound = facts.bounds.driver_cpu
    text = f"it used {share:.0%} of the {facts.cpus} CPUs that it may use (bound {bound:.0%})"
    return Reason(gate="driver_cpu", text=text)
