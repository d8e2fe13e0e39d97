"""summary.json: the facts of a study, made from the rest of the study folder at any time."""

from __future__ import annotations

from mydyno.files.atomic import write_text
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.records import StudyRecord
from mydyno.model.stored.screening import ScreenRecord
from mydyno.model.stored.summary import HostGroupsRecord, Summary
from mydyno.results.facts import facts_of
from mydyno.results.follow_up import FOLLOW_UP_FILE, follow_up_toml
from mydyno.results.host_facts import fact_differences
from mydyno.results.screening import Screened
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.hosts import fact_words
from mydyno.wording.limits import limit_record
from mydyno.wording.published import conclusion_record, published_entry


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
