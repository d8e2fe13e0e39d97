"""summary.json: the facts of a study with their sentences, made from the rest of the study folder at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mydyno.files.atomic import write_text
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.records import StudyRecord
from mydyno.model.stored.screening import ScreenRecord
from mydyno.model.stored.summary import HostGroupsRecord, RunSummary, Summary
from mydyno.results.facts import StudyFacts, facts_of
from mydyno.results.families import first_label
from mydyno.results.follow_up import FOLLOW_UP_FILE, follow_up_toml
from mydyno.results.host_facts import fact_differences
from mydyno.results.screening import Screened
from mydyno.stats.power import minimum_blocks
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts.words import blocks
from mydyno.wording.answer import with_answer
from mydyno.wording.hosts import fact_words, hosts_sentences
from mydyno.wording.limits import limit_record, limit_sentences
from mydyno.wording.published import conclusion_record, published_entry

SETTING_TREATMENTS = ("variables", "environment", "sysctl")
"""Treatments of which the server or the kernel may take another value than the one set."""


def summarise(folder: StudyFolder) -> Summary:
    """Make the summary and write it. Raises UserError if the folder is damaged."""
    facts = facts_of(folder)
    study = facts.study
    steps = {step.id: step for step in study.experiment.resolved_steps}
    summary = facts.summary.model_copy(
        update={
            "host_groups": _with_differences(facts.summary.host_groups, study),
            "screening": tuple(_screen_record(one, study.experiment) for one in facts.screening),
            "limits": tuple(limit_record(one, steps[one.step]) for one in facts.limits),
            "conclusions": tuple(map(conclusion_record, facts.conclusions)),
            "published": tuple(map(published_entry, facts.published)),
        }
    )
    summary = summary.model_copy(update={"sentences": _sentences(facts, summary)})
    summary = with_answer(summary, study, facts.runs)
    folder.write_summary(summary)
    record = next((one for one in summary.screening if one.follow_up), None)
    if record is not None:
        write_text(folder.path / FOLLOW_UP_FILE, follow_up_toml(study.experiment, record, summary.study))
    return summary


def _with_differences(groups: HostGroupsRecord | None, study: StudyRecord) -> HostGroupsRecord | None:
    """The host groups with the facts that differ between their servers' hosts."""
    if groups is None:
        return None
    differing = fact_differences(study.hosts, list(groups.blocks))
    worded = {fact: {group: fact_words(value) for group, value in of.items()} for fact, of in differing.items()}
    return groups.model_copy(update={"differences": worded})


def _screen_record(one: Screened, experiment: Experiment) -> ScreenRecord:
    """The main effects as summary.json has them."""
    spec, record = experiment.screen, one.record
    assert spec is not None
    kind = "definitive screening" if spec.design == "definitive" else "Plackett–Burman"
    design = f"{kind}{' with foldover' if spec.foldover else ''}, {record.runs} runs"
    alarm = f"the two copies of {experiment.control} differ at {record.step}" if one.copies_differ else ""
    return record.model_copy(update={"design": design, "alarm": alarm})


def _sentences(facts: StudyFacts, summary: Summary) -> tuple[str, ...]:
    """The primary metric's sentences, then what limits them, then limits, published conclusions and several hosts."""
    experiment, plan, runs = facts.study.experiment, facts.plan, summary.runs
    sentences = [effect.sentence for effect in summary.effects if effect.primary]
    if len(experiment.arms) == 1:
        sentences.append(
            f"{experiment.control} is the only arm: this study shows its noise floor and compares nothing."
        )
    invalid = [run for run in runs if not run.valid]
    if invalid:
        causes = Counter(first_label(run.reasons) for run in invalid)
        words = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common())
        sentences.append(f"{len(invalid)} of {len(runs)} runs are invalid and not used: {words}.")
        sentences += _settings_not_taken(invalid)
    if len(runs) < len(plan.runs):
        sentences.append(f"{len(runs)} of {len(plan.runs)} planned runs were made; `mydyno resume` makes the rest.")
    contrasts = sum(effect.primary for effect in summary.effects)
    fewest = minimum_blocks(max(1, contrasts))
    if len(plan.blocks) < fewest and contrasts and experiment.design.time is None:
        sentences.append(f"{blocks(len(plan.blocks))} cannot show a difference: at least {fewest} are needed.")
    conclusions = [one.sentence for one in summary.conclusions]
    limits = limit_sentences(summary.limits, experiment.resolved_steps)
    return (*sentences, *limits, *conclusions, *hosts_sentences(summary))


def _settings_not_taken(invalid: Sequence[RunSummary]) -> list[str]:
    """What server or kernel made of settings that it rounded, clipped or ignored: a sentence per arm and setting."""
    sentences = (
        f"{run.arm} does not run with the settings that it declares: {one.text}."
        for run in invalid
        for one in run.evidence
        if not one.holds and one.treatment in SETTING_TREATMENTS
    )
    return list(dict.fromkeys(sentences))
