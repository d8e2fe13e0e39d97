"""The record of a study over several host groups, and the words about it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import pytest

from mydyno.analysis.base import Examined
from mydyno.analysis.host_groups import analyse, facts_rows, hosts_effects
from mydyno.evaluation.answer import answer_study
from mydyno.model.stored.summary import EffectRecord, HostGroupsRecord, HostsEffect, RunSummary, Summary
from mydyno.results.precision import first_finished
from mydyno.results.settings import fact_differences
from mydyno.wording.scope_line import claim_words, difference_clause, hosts_sharpen, sizes
from tests.support.fake_answer import effect, experiment, records, runs, study, summary
from tests.support.host_groups import spread

MARGIN = 0.02


def over_hosts(arm: str, verdict: str, shares: Sequence[float], half: float = 1.0, blocks: int = 2) -> EffectRecord:
    """An effect with these shares on vm1, vm2, …; the blocks of a host lie 0.1 % apart."""
    logs = [log(1.0 + share) + 0.001 * (place % 2) for share in shares for place in range(blocks)]
    mean = sum(shares) / len(shares)
    made = effect(arm, verdict, 100.0 * mean, half)
    details = made.details.model_copy(update={"log_ratios": dict(enumerate(logs, 1))})
    return made.model_copy(update={"details": details, "n": len(logs)})


def found(effects: Sequence[EffectRecord], hosts: int) -> tuple[HostsEffect, ...]:
    return hosts_effects(effects, spread([2] * hosts), 0.05, lambda metric: MARGIN)


def summarised(effects: Sequence[EffectRecord], hosts: int) -> Summary:
    record = HostGroupsRecord(blocks={f"vm{n}": 2 for n in range(1, hosts + 1)}, effects=found(effects, hosts))
    return summary(experiment(), effects, 2 * hosts, host_groups=record, look=None, design="blocks", interleaving=None)


def said(effects: Sequence[EffectRecord], hosts: int) -> tuple[str, ...]:
    made, of = summarised(effects, hosts), experiment(design={"blocks": 2 * hosts})
    return answer_study(made, study(of), records(of, 2 * hosts)).answer


@pytest.mark.parametrize(
    ("verdict", "shares", "holds_on"),
    [
        ("higher", (0.10, 0.11, 0.12), "hosts like these"),
        ("higher", (0.10, 0.11), "these hosts"),
        ("higher", (0.20, 0.01, 0.09), "these hosts"),
        ("lower", (-0.10, -0.11, -0.12), "hosts like these"),
        ("equivalent", (0.001, 0.002, 0.001), "hosts like these"),
        ("equivalent", (0.018, -0.018, 0.001), "these hosts"),
        ("inconclusive", (0.10, 0.11, 0.12), "no host"),
        ("not_measurable", (0.10, 0.11, 0.12), "no host"),
    ],
)
def test_a_verdict_is_claimed_of_other_hosts_where_three_or_more_agree(
    verdict: str, shares: tuple[float, ...], holds_on: str
) -> None:
    (one,) = found([over_hosts("jemalloc", verdict, shares)], len(shares))
    assert one.holds_on == holds_on


def test_one_host_that_shows_the_opposite_forbids_the_claim() -> None:
    (one,) = found([over_hosts("jemalloc", "higher", (*(0.10,) * 15, -0.10))], 16)
    assert one.hosts_low is not None and one.hosts_low > 1.0
    assert one.holds_on == "these hosts"


def test_the_interval_for_other_hosts_is_never_shorter_than_that_for_these() -> None:
    (one,) = found([over_hosts("jemalloc", "higher", (0.10, 0.10, 0.10), half=4.0)], 3)
    assert one.hosts_low == pytest.approx(1.10 / 1.04) and one.hosts_high == pytest.approx(1.10 * 1.04)


def test_more_contrasts_make_the_interval_for_other_hosts_wider() -> None:
    effects = [over_hosts(arm, "higher", (0.10, 0.12, 0.11), half=0.1) for arm in ("jemalloc", "tcmalloc")]
    (alone,), both = found(effects[:1], 3), found(effects, 3)
    assert (both[0].hosts_low or 0.0) < (alone.hosts_low or 0.0)


def test_an_arm_that_failed_has_no_effect_on_any_host() -> None:
    failed = effect("jemalloc", "not_measurable", None)
    (one,) = found([failed], 2)
    assert [(group.group, group.n, group.ratio) for group in one.groups] == [] or all(
        group.ratio is None for group in one.groups
    )
    assert one.p_heterogeneity is None and one.holds_on == "no host"


def test_of_what_is_not_measurable_no_difference_between_hosts_is_shown() -> None:
    """Under an alarm, or where more blocks are lost than left."""
    apart = over_hosts("x", "higher", (0.20, 0.01, 0.09))
    assert found([apart], 3)[0].differs
    assert not found([apart.model_copy(update={"verdict": "not_measurable"})], 3)[0].differs


def test_exploratory_metrics_have_no_record() -> None:
    assert found([effect("jemalloc", None, 3.0)], 2) == ()


def test_a_study_of_one_group_has_no_record() -> None:
    of = experiment()
    assert analyse(Examined(experiment=of, runs=(), alpha=0.05, every_run=runs(of))) is None


def test_the_record_counts_the_blocks_of_every_group() -> None:
    of = experiment()
    groups = spread((4, 2))
    made: list[RunSummary] = [run.model_copy(update={"host_group": groups[run.block]}) for run in runs(of)]
    hosts = {"vm1": {"kernel": "6.1", "numa": True, "cpus": 4}, "vm2": {"kernel": "6.12", "numa": False, "cpus": 4}}
    record = analyse(Examined(experiment=of, runs=(), alpha=0.05, every_run=made, hosts=hosts))
    assert record is not None and record.blocks == {"vm1": 4, "vm2": 2}
    assert record.differences == {"kernel": {"vm1": "6.1", "vm2": "6.12"}, "numa": {"vm1": True, "vm2": False}}
    assert facts_rows(record) == [
        ("kernel", "6.1", "vm1"),
        ("", "6.12", "vm2"),
        ("numa", "yes", "vm1"),
        ("", "no", "vm2"),
    ]


def test_a_look_has_the_blocks_that_finished_first() -> None:
    """Block 2 was lost with its host and made again after block 4."""
    of = experiment()
    made = records(of, 4)
    late = [run.model_copy(update={"ended_unix_ns": made[-1].ended_unix_ns + 1}) if run.block == 2 else run
            for run in made]  # fmt: skip
    assert first_finished(made, 3) == {1, 2, 3}
    assert first_finished(late, 3) == {1, 3, 4}
    assert first_finished(late, None) == {1, 2, 3, 4}


def test_facts_are_compared_as_printed_kernel_and_cpu_first() -> None:
    hosts = {
        "vm1": {"swappiness": "1", "kernel": "6.1", "cpus": 8, "memory_bytes": (16 << 30) - 4096, "hostname": "a",
                "filesystem": {"type": "ext4", "free_bytes": 1}, "root": True},
        "vm2": {"swappiness": "60", "kernel": "6.12", "cpus": 8, "memory_bytes": 16 << 30, "hostname": "b",
                "filesystem": {"type": "xfs", "free_bytes": 2}},
    }  # fmt: skip
    differences = fact_differences(hosts, ["vm1", "vm2", "vm3"])
    assert list(differences) == ["kernel", "filesystem", "root", "swappiness"]
    assert differences["filesystem"] == {"vm1": "ext4", "vm2": "xfs"}
    assert differences["root"] == {"vm1": True}, "unknown on the other"
    assert fact_differences({}, ["vm1", "vm2"]) == {}


def test_the_answer_of_two_hosts_names_them_and_their_difference() -> None:
    assert said([over_hosts("tcmalloc", "lower", (-0.08, 0.01))], 2) == (
        "On these two hosts, tcmalloc serves fewer queries than glibc: −3.5 % (between −4.5 % and −2.5 %).",
        "tcmalloc's effect differs between the hosts: −8 % on vm1, +1.1 % on vm2.",
    )


def test_the_answer_of_five_hosts_has_the_interval_for_hosts_like_these() -> None:
    first, second = said([over_hosts("jemalloc", "higher", (0.08, 0.09, 0.08, 0.09, 0.08), half=0.5)], 5)
    assert first.startswith("On these five hosts, jemalloc serves more queries than glibc: +8.4 %")
    assert second.startswith("jemalloc's effect differs between the hosts: from +8.1 % on vm1 to +9.1 % on vm")
    assert "; on hosts like these it is between +7." in second


def test_what_is_not_shown_for_other_hosts_is_said() -> None:
    _, second = said([over_hosts("jemalloc", "higher", (0.20, 0.01, 0.09))], 3)
    assert second.endswith("; nothing is shown for other hosts like these.")


def test_sentences_that_begin_with_a_word_are_joined_to_the_hosts() -> None:
    first = said([over_hosts("jemalloc", "inconclusive", (0.001, 0.001), half=3.0)], 2)[0]
    assert first.startswith("On these two hosts, no difference in queries per second is shown yet: differences below")
    assert "these hosts' noise" in first


@pytest.mark.parametrize(
    ("verdicts", "hosts", "words"),
    [
        (("higher", "higher"), 2, "the claims apply to these two hosts only"),
        (("higher", "higher"), 3, "the claims apply to hosts like these"),
        (("higher", "lower"), 3, "the claims apply to these hosts, 1 of 2 also to hosts like these"),
        (("inconclusive", "inconclusive"), 3, "the claims apply to these hosts only"),
    ],
)
def test_what_the_claims_are_about(verdicts: tuple[str, str], hosts: int, words: str) -> None:
    """An effect of the other sign than its verdict is never claimed of others."""
    effects = [over_hosts(arm, verdict, (0.10, 0.11, 0.10)[:hosts], half=0.1)
               for arm, verdict in zip(("jemalloc", "tcmalloc"), verdicts, strict=True)]  # fmt: skip
    groups = summarised(effects, hosts).host_groups
    assert groups is not None and claim_words(groups) == words


def test_what_a_claim_about_other_hosts_needs() -> None:
    assert hosts_sharpen(summarised([over_hosts("jemalloc", "higher", (0.1, 0.1))], 2)) == [
        "A claim about hosts like these needs at least three hosts."
    ]
    (line,) = hosts_sharpen(summarised([over_hosts("jemalloc", "higher", (0.2, 0.01, 0.09))], 3))
    assert line == "Hosts like these: a factor of 1.2 now; more hosts make it narrower."
    assert hosts_sharpen(summarised([over_hosts("jemalloc", "inconclusive", (0.1, 0.1))], 2)) == []


def test_many_hosts_are_named_by_their_extremes_and_a_metric_by_its_noun() -> None:
    made = summarised([over_hosts("jemalloc", "higher", (0.08, 0.12, 0.10, 0.09, 0.11))], 5)
    assert made.host_groups is not None
    (one,) = made.host_groups.effects
    assert sizes(one) == "from +8.1 % on vm1 to +12.1 % on vm2"
    other = one.model_copy(update={"metric": "latency_p99_us", "control": "tcmalloc"})
    assert difference_clause(other, made).startswith(
        "jemalloc's effect on 99th-percentile latency against tcmalloc differs between the hosts: "
    )
