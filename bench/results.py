"""What the built-in experiments find on this host, as the pages docs/results.

Runs all of them, or those that are named, one after the other, each at its quick scale for --time. A study that is
complete in --keep is not made again: a benchmark that was interrupted continues, and --pages writes the pages of these
studies anew, as after a change of the reports. A page is the study's report in Markdown, with --host in place of the
host's name. The index lists an experiment that fails, or that this host cannot run, with the reason; the others go on.

Takes --time and about a minute for each experiment, and the first time a few minutes to download the servers.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mydyno.experiments import built_in
from mydyno.model.definition.quantities import format_duration, load_level
from mydyno.model.stored.records import StudyRecord
from mydyno.reports import write as report
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.numbers import metric_name, ratio_interval, signed_percent
from support.programs import REPOSITORY, BenchError, end_as_by_ctrl_c, say
from support.studies import Study, complete_study, finished_study, run_study, seconds

sys.path.append(str(REPOSITORY))

from docs.result_pages import FOLDER, Result, read, report_page, write

SETUP_S = 1800.0
"""For servers to be downloaded or built, besides the time of a study."""
DECIDED, OPEN = ("higher", "lower", "equivalent"), "inconclusive"


class NamedFolder(StudyFolder):
    """A study folder of a host that has another name; None: processor and system."""

    def __init__(self, path: Path, host: str | None) -> None:
        super().__init__(path)
        facts = super().study().host
        self.hostname = str(facts["hostname"])
        known = (facts.get("cpu_model"), facts.get("distribution"))
        self.host = host or ", ".join(str(one) for one in known if one)
        self.host += f", Linux {str(facts['kernel']).partition('-')[0]}"

    def study(self) -> StudyRecord:
        """As the folder has it otherwise."""
        found = super().study()
        return found.model_copy(update={"host": {**found.host, "hostname": self.host}})


def page_of(name: str, study: Study, host: str | None) -> tuple[str, Result]:
    """The experiment's page, and its line in the index. Raises BenchError where the page would name this host."""
    folder = NamedFolder(study.folder, host)
    journal = [int(event["unix_ns"]) for event in folder.journal.read()]
    took_s = (max(journal) - folder.study().created_unix_ns) / 1e9
    page = report_page(name, str(report(folder, "md")), format_duration(took_s))
    for private in (folder.hostname, str(Path.home()), str(study.folder.parent)):
        if found := re.search(rf".*(?<![\w.-]){re.escape(private)}(?![\w-]|\.\w).*", page):
            raise BenchError(f"its report names this host: {found[0]}")
    date = datetime.fromtimestamp(max(journal) / 1e9, UTC).date().isoformat()
    return page, Result(
        answer=" ".join(study.summary["answer"][:2]), effect=effect_of(study.summary), date=date, host=folder.host
    )


def effect_of(summary: dict[str, Any]) -> str:
    """The largest effect on the first metric: one with a verdict on its size, if there are some. Empty without any."""
    found = [one for one in summary["effects"] if one["metric"] == summary["primary"] and one["ci_low"] is not None]
    found = [one for one in found if one["verdict"] in DECIDED] or [one for one in found if one["verdict"] == OPEN]
    if not found:
        return ""
    effect = max(found, key=lambda one: max(one["ratio"], 1 / one["ratio"]))
    metric = metric_name(effect["metric"], list(dict.fromkeys(one["workload"] for one in summary["steps"])))
    (level,) = [one for one in summary["steps"] if one["id"] == effect["step"]]
    load = f", {level['workload']} at {load_level(level['connections'], level['rate'])}"
    name = f"{metric}, {effect['arm']}{load if len(summary['steps']) > 1 else ''}"
    interval = ratio_interval(effect["ci_low"], effect["ci_high"])
    return f"{name}: {signed_percent(effect['ratio'] - 1)} ({interval}), {effect['verdict']}"


def measured(name: str, folder: Path, time: str) -> Study:
    """The experiment's study: the one that is there, or a new one. Raises BenchError."""
    if found := complete_study(folder):
        return found
    folder.mkdir(parents=True)
    try:
        return run_study(name, folder, seconds(time) + SETUP_S, "--time", time)
    except BenchError:
        # That no comparison has an answer fails a study, and is a result.
        if found := finished_study(folder):
            return found
        raise


def reason(error: BenchError) -> str:
    """The message of mydyno in the output of a study that failed."""
    return next(iter(re.findall(r"^mydyno: error: (.+)", str(error), re.MULTILINE)), str(error).partition("\n")[0])


def time_of(text: str) -> str:
    """A duration, as mydyno takes it."""
    seconds(text)
    return text


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="*", metavar="EXPERIMENT", help="a built-in experiment [all]")
    parser.add_argument("--time", type=time_of, default="6m", metavar="6m", help="time for each study [6m]")
    keep = REPOSITORY / "build/results"
    parser.add_argument("--keep", type=Path, default=keep, metavar="FOLDER", help="of the studies [build/results]")
    parser.add_argument("--pages", action="store_true", help="run nothing: write the pages of the studies in --keep")
    parser.add_argument("--host", help="what the pages name the host [processor, system]")
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="FOLDER", help="of the pages [docs/results]")
    options = parser.parse_args()
    if unknown := set(options.experiment) - set(built_in()):
        parser.error(f"no built-in experiment: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    """Measure, and write the pages. Exit code 1: an experiment was not measured."""
    options = arguments()
    end_as_by_ctrl_c()
    failed = 0
    results = read(options.to)
    for name in options.experiment or built_in():
        folder = options.keep.resolve() / name
        try:
            if options.pages:
                study = finished_study(folder)
                if study is None:
                    continue
            else:
                say(f"{name}, {options.time}")
                study = measured(name, folder, options.time)
            page, result = page_of(name, study, options.host)
        except BenchError as error:
            failed += 1
            say(f"  {error}")
            if name not in results or results[name].not_measured:
                results[name] = Result(not_measured=reason(error))
        except KeyboardInterrupt:
            say("interrupted")
            return 130
        else:
            say(f"  {result.answer}")
            results[name] = result
            options.to.mkdir(parents=True, exist_ok=True)
            (options.to / f"{name}.md").write_text(page)
        write(results, options.to)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
