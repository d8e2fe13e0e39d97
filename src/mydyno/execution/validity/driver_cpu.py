"""If the driver uses all the CPU time that it may use, the driver was measured, not the server.

With client hosts each of them is judged by its own CPUs: one that is full delays its part of the load, however idle the
others are.
"""

from __future__ import annotations

from mydyno.execution.validity.driver_health import OF_THE_DRIVER
from mydyno.execution.validity.facts import StepFacts
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Fails where the driver's CPU time is above validity.driver_cpu of the CPUs that it may use, on any client host,
    or where the driver reports that one of its threads was saturated.
    """
    busy = [one.text for one in facts.driver.findings if one.level == "invalid" and one.rule in OF_THE_DRIVER]
    if busy:
        return Reason(gate="driver_cpu", text="; ".join(busy))
    if facts.driver.clients:
        return _of_clients(facts)
    if facts.driver.cpu_user_s is None or facts.driver.cpu_system_s is None or facts.whole_s <= 0:
        return None
    share = (facts.driver.cpu_user_s + facts.driver.cpu_system_s) / (facts.whole_s * facts.cpus)
    if share <= facts.bounds.driver_cpu:
        return None
    bound = facts.bounds.driver_cpu
    text = f"it used {share:.0%} of the {facts.cpus:g} CPUs that it may use (bound {bound:.0%})"
    return Reason(gate="driver_cpu", text=text)


def _of_clients(facts: StepFacts) -> Reason | None:
    bound = facts.bounds.driver_cpu
    full = []
    for client in facts.driver.clients:
        available_s = facts.whole_s * (client.cpus or 0)
        share = (client.cpu_user_s + client.cpu_system_s) / available_s if available_s > 0 else 0.0
        busy = max(share, (client.busy_pct or 0.0) / 100)
        if busy > bound:
            full.append(f"client {client.name} was {busy:.0%} busy (bound {bound:.0%})")
    return Reason(gate="driver_cpu", text="; ".join(full)) if full else None
