"""Arms that are a product of factors are found from what they set; other arms are not taken for one."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno.model.definition.experiment import ArmSpec
from mydyno.model.definition.factors import factors_of

BANDWIDTHS: dict[str, dict[str, Any]] = {name: {"network": name} for name in ("10gbit", "1gbit", "100mbit")}
TLS: dict[str, dict[str, Any]] = {"plain": {"tls": "off"}, "tls": {"tls": "1.3"}}
COMPRESSION: dict[str, dict[str, Any]] = {"raw": {"compression": "off"}, "zlib": {"compression": "zlib"}}


def product(*factors: dict[str, dict[str, Any]]) -> list[ArmSpec]:
    arms: dict[str, dict[str, Any]] = {"": {}}
    for factor in factors:
        arms = {
            f"{name}-{level}".lstrip("-"): {**treatments, **more}
            for name, treatments in arms.items()
            for level, more in factor.items()
        }
    return [ArmSpec(name=name, treatments=treatments) for name, treatments in arms.items()]


def test_twelve_arms_of_three_factors_are_found_with_their_levels_names() -> None:
    arms = product(BANDWIDTHS, TLS, COMPRESSION)
    found = factors_of(arms)
    assert found is not None
    assert [factor.name for factor in found.factors] == ["network", "tls", "compression"]
    assert [factor.levels for factor in found.factors] == [
        ("10gbit", "1gbit", "100mbit"), ("plain", "tls"), ("raw", "zlib")]  # fmt: skip
    assert found.levels_of["100mbit-tls-zlib"] == ("100mbit", "tls", "zlib")
    assert found.arm(("1gbit", "plain", "zlib")) == "1gbit-plain-zlib"
    with pytest.raises(KeyError):
        found.arm(("1gbit", "plain", "lz4"))


def test_levels_with_dashes_in_their_names_are_cut_by_what_the_arms_set() -> None:
    limits = {"limit-a": {"cgroup": {"cpu": 1}}, "limit-b": {"cgroup": {"cpu": 2}}}
    found = factors_of(product({"read-ahead-on": {"sysctl": 1}, "read-ahead-off": {"sysctl": 2}}, limits))
    assert found is not None
    assert [factor.levels for factor in found.factors] == [
        ("read-ahead-on", "read-ahead-off"), ("limit-a", "limit-b")]  # fmt: skip


def test_settings_that_change_together_are_one_factor() -> None:
    pools = {"small": {"variables": {"pool": 1, "log": 1}}, "large": {"variables": {"pool": 8, "log": 4}}}
    found = factors_of(product(pools, TLS))
    assert found is not None and [factor.levels for factor in found.factors] == [("small", "large"), ("plain", "tls")]


def test_a_setting_that_another_one_determines_is_no_factor_of_its_own() -> None:
    flush = [{"flush": 1}, {"flush": 2}]
    logs: dict[str, dict[str, Any]] = {"synced": {"log": 1, "sync": 1}, "unsynced": {"log": 1, "sync": 0}, "off": {}}
    arms = [
        ArmSpec(name=f"{one['flush']}-{name}", treatments={"variables": one | log})
        for one in flush
        for name, log in logs.items()
    ]
    found = factors_of(arms)
    assert found is not None
    assert [factor.levels for factor in found.factors] == [("1", "2"), ("synced", "unsynced", "off")]


def test_two_settings_of_one_treatment_are_two_factors() -> None:
    arms = [
        ArmSpec(name=f"{pool}g-{flush}", treatments={"variables": {"pool": pool, "flush": flush}})
        for pool in (1, 2)
        for flush in (0, 1, 2)
    ]
    found = factors_of(arms)
    assert found is not None
    assert [factor.name for factor in found.factors] == ["variables.pool", "variables.flush"]


def test_names_alone_make_no_factors() -> None:
    names = ("a-1", "a-2", "b-1", "b-2")
    assert factors_of([ArmSpec(name=name, treatments={"allocator": name}) for name in names]) is None


def test_an_incomplete_product_is_none() -> None:
    assert factors_of(product(BANDWIDTHS, TLS, COMPRESSION)[:-1]) is None


def test_arms_with_names_of_their_own_are_no_product() -> None:
    arms = [arm.model_copy(update={"name": f"arm{index}"}) for index, arm in enumerate(product(TLS, COMPRESSION))]
    assert factors_of(arms) is None


def test_the_level_that_exactly_these_arms_share_is_named() -> None:
    arms = product(BANDWIDTHS, TLS, COMPRESSION)
    found = factors_of(arms)
    assert found is not None
    names = [arm.name for arm in arms]
    assert found.level_shared_by([name for name in names if name.endswith("zlib")], names) == "zlib"
    assert found.level_shared_by(names[:3], names) is None
