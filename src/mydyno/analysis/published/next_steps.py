"""Where a published claim cannot be compared yet: which host, which loads or how much time would decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.analysis.published.conclusions import Facts
from mydyno.experiment_file.published_studies import (
    Conclusion,
    FlatAtFullLink,
    FullLinkShare,
    RatioAtConnections,
    StopsGrowing,
    VerdictOfPairs,
    published_studies,
)
from mydyno.language import agreed
from mydyno.model.definition.plan import instances_of_each
from mydyno.model.stored.records import RunRecord, StudyRecord
from mydyno.model.stored.summary import ConclusionRecord, EffectRecord, PublishedEntry, Summary
from mydyno.results.precision import block_duration_s, is_sequential, outlook
from mydyno.wording.advice import further

CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class NextSteps:
    """What would decide the claims of one study; empty text for a claim that is decided."""

    summary: Summary
    study: StudyRecord
    records: Sequence[RunRecord]

    def of_figure(self, entry: PublishedEntry) -> str:
        """What would decide a published figure."""
        if entry.agreement != CANNOT_TELL:
            return ""
        effect = next((one for one in self.summary.effects if _is_of(one, entry)), None)
        if any(one.fact == "no link full" for one in entry.facts):
            return self._full_link()
        if effect is None or effect.ratio is None:
            return ""
        if effect.verdict is None:
            return f"a study with verdicts on it: {self._primary(entry.metric)}"
        loads = [value for one in entry.notes if isinstance(value := one.values.get("published"), int)]
        if loads:
            return self._at(loads[0])
        return self._time([effect])

    def of_conclusion(self, one: ConclusionRecord) -> str:
        """What would decide a published conclusion."""
        known = published_studies().get(one.study)
        parts = [part for part in known.parts if part.name == one.part] if known else []
        found = [(part.treatment, claim) for part in parts for claim in part.conclusions if claim.claim == one.claim]
        if one.answer != CANNOT_TELL or not found:
            return ""
        return self._of_test(*found[0])

    def _of_test(self, treatment: str, conclusion: Conclusion) -> str:
        facts, summary = self._facts, self.summary
        match conclusion.test:
            case FullLinkShare():
                full = any(limit.limit == "link" for limit in summary.limits)
                return "more blocks: at least 6" if full else self._full_link()
            case FlatAtFullLink():
                return "two loads at which a link is full: --set 'steps.connections=[64,256]'"
            case VerdictOfPairs() as test:
                wanted = facts.pairs(treatment, test.where)
                return self._time(wanted) if wanted else self._full_link()
            case RatioAtConnections() as test:
                wanted = [one for one, step in facts.contrasts(treatment) if step.connections == test.connections]
                return self._time(wanted) if wanted else self._at(test.connections)
            case StopsGrowing() as test:
                option = f"--set 'steps.connections=[{test.from_connections},{8 * test.from_connections}]'"
                return f"loads at which throughput grows without it ({option}), on a host with more CPUs"

    def _at(self, connections: int) -> str:
        return agreed(f"a study at {connections} connections: --set 'steps.connections=[{connections}]'")

    @property
    def _facts(self) -> Facts:
        limits = {(limit.arm, limit.step): limit for limit in self.summary.limits}
        return Facts(self.study.experiment, self.summary.runs, self.summary.effects, limits)

    def _full_link(self) -> str:
        shares = [limit.shares["link"] for limit in self.summary.limits if "link" in limit.shares]
        if not shares:
            return "arms with a link whose speed is proved"
        share = f"{max(shares) * 100:.0f} %"
        return f"a host with more CPUs, or a slower link: the fullest one here carried {share}"

    def _primary(self, metric: str) -> str:
        """The option that adds a metric to those of the question."""
        wanted = dict.fromkeys((self.summary.primary, *self.summary.also_primary, metric))
        names = ",".join(f'"{one}"' for one in wanted)
        return f"--set 'verdict.primary=[{names}]'"

    def _time(self, effects: Sequence[EffectRecord]) -> str:
        """The time after which these contrasts should be decided."""
        if any(effect.details.alarm for effect in effects):
            return "a quieter host: here two copies of the control differ"
        open_ = [effect for effect in effects if effect.verdict == "inconclusive"]
        if not open_:
            return "more blocks, for a narrower interval"
        if instances_of_each(self.study.experiment) > 1:
            return "more instances of each arm"
        sequential = is_sequential(self.summary, self.study.experiment)
        found = outlook(self.summary, open_, block_duration_s(self.records), sequential)
        if found is None or (found.every_s is None and found.every is not None):
            return "more blocks, for a narrower interval"
        if found.every is None or found.every_s is None:
            return "a quieter host: with the noise of this one, more blocks do not decide it"
        seems = any(one.fact == "seems_different" for effect in open_ for one in effect.details.facts)
        condition = ", if the difference is of this size" if seems else ""
        return f"about {further(self.summary.study, found.every, found.every_s, sequential)}{condition}"


def _is_of(effect: EffectRecord, entry: PublishedEntry) -> bool:
    return (effect.metric, effect.step, effect.arm, effect.control) == (
        entry.metric, entry.step, entry.arm, entry.control,
    )  # fmt: skip
