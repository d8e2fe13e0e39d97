"""What dynoload is asked beside its workload: a new random stream for each step, unless the experiment says which."""

from __future__ import annotations

from mydyno.drivers.dynoload import asked_options
from mydyno.model.experiment import DataSpec, Scalar, Step

DATA = DataSpec(tables=1, rows=1000)


def step(**options: Scalar) -> Step:
    return Step(
        id="oltp_read_write-4", workload="oltp_read_write", connections=4, warmup_s=1, measure_s=2, driver="dynoload",
        options=options,
    )  # fmt: skip


def test_no_two_steps_ask_the_same_or_the_second_would_write_what_stands_there() -> None:
    seeds = {asked_options(DATA, step(rand_type="uniform"))["rand_seed"] for _ in range(20)}
    assert len(seeds) == 20
    assert 0 not in seeds
    assert asked_options(DATA, step(rand_seed=0))["rand_seed"] != 0


def test_a_seed_that_the_experiment_says_is_taken() -> None:
    assert asked_options(DATA, step(rand_seed=7)) == {"rand_seed": 7}


def test_tpcc_keeps_its_own_seed() -> None:
    assert asked_options(DataSpec(workload="tpcc", warehouses=1), step(seed=1)) == {"seed": 1}
