"""How busy client hosts were, and the gate that names one that was full."""

from __future__ import annotations

from mydyno.execution.environments.probe import busy_client_words, busy_pct
from mydyno.execution.validity import StepFacts, driver_cpu
from mydyno.model.definition.specs import ValiditySpec
from mydyno.model.stored.records import ClientLoad, DriverResult
from mydyno.store.samples import Sample


def samples(name: str, user: float, system: float, *seconds: int) -> list[Sample]:
    return [
        Sample(second * 10**9, f"client:{name}", metric, value)
        for second in seconds
        for metric, value in (("cpu_user_pct", user), ("cpu_system_pct", system), ("cpu_iowait_pct", 50.0))
    ]


def test_only_samples_within_the_windows_count() -> None:
    found = [*samples("a", 60, 37, 2, 3), *samples("a", 0, 0, 1, 5), *samples("b", 10, 5, 2)]
    found.append(Sample(2 * 10**9, "host", "cpu_user_pct", 100.0))
    windows = [(10**9, 3 * 10**9)]
    assert busy_pct(found, windows) == {"a": 97.0, "b": 15.0}
    (words,) = busy_client_words(found, windows, 0.95)
    assert words.startswith("client a was 97 % busy")
    assert busy_pct(found, windows, 0.75) == {"a": 100.0, "b": 20.0}, "a quarter of each sample is a pause"
    assert busy_client_words(found, windows, 0.18, 0.75)[1].startswith("client b was 20 % busy")
    assert busy_client_words(found, [(10 * 10**9, 11 * 10**9)], 0.95) == []


def facts(*clients: ClientLoad) -> StepFacts:
    driver = DriverResult(
        driver="dynoload", version="1", command=(), transactions=1, queries=1, duration_s=10.0, clients=clients,
        cpu_user_s=sum(client.cpu_user_s for client in clients), cpu_system_s=0.0,
    )  # fmt: skip
    return StepFacts(ValiditySpec(), driver, whole_s=10.0, cpus=1)


def test_each_client_is_judged_by_its_own_cpus() -> None:
    idle = ClientLoad(name="a", cpus=8, cpu_user_s=20.0, busy_pct=30.0)
    assert driver_cpu(facts(idle, idle)) is None, "40 s of CPU time in 10 s, but on 16 CPUs"
    full = ClientLoad(name="vm03", cpus=2, cpu_user_s=19.4)
    reason = driver_cpu(facts(idle, full))
    assert reason is not None
    assert reason.text == "client vm03 was 97% busy (bound 95%)"
    others = ClientLoad(name="b", cpus=8, cpu_user_s=1.0, busy_pct=99.0)
    assert driver_cpu(facts(others)) is not None, "full of something else"


def test_loads_of_one_host_add_up() -> None:
    one = ClientLoad(name="a", cpus=2, threads=1, cpu_user_s=1.0, cpu_system_s=2.0, busiest_thread_cpu_pct=10.0)
    both = one.with_other(one.model_copy(update={"busiest_thread_cpu_pct": 20.0}))
    assert (both.threads, both.cpu_user_s, both.cpu_system_s, both.busiest_thread_cpu_pct) == (2, 2.0, 4.0, 20.0)
    assert both.cpus == 2
