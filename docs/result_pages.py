"""The pages docs/results: what each built-in experiment found on the host where `bench/run results` measured it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from mydyno.document.printers import escape
from mydyno.experiments import built_in, load

FOLDER = Path(__file__).parent / "results"
RECORDS = "results.json"
NOTE = "<!-- Made by bench/run results; docs/generate makes the index again from results.json. -->\n"
INTRODUCTION = """The answer of each [built-in experiment](../reference/experiments.md), in its first sentences, and the
largest effect on the first metric, with an interval that is simultaneous over all comparisons of the study. Each name
leads to the report. An answer holds for the host where it was measured: `mydyno run NAME` measures another one, and a
longer `--time` gives narrower intervals.
"""


class Result(BaseModel):
    """What an experiment found, or why it was not measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str = ""
    effect: str = ""
    date: str = ""
    host: str = ""
    not_measured: str = ""
    """The reason, in place of all others."""


_FILE = TypeAdapter(dict[str, Result])


def read(folder: Path = FOLDER) -> dict[str, Result]:
    """{experiment: what is known of it}; empty before the first was measured."""
    path = folder / RECORDS
    return _FILE.validate_json(path.read_bytes()) if path.is_file() else {}


def write(results: Mapping[str, Result], folder: Path = FOLDER) -> None:
    """What read() reads, and the index."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {name: results[name] for name in built_in() if name in results}
    (folder / RECORDS).write_bytes(_FILE.dump_json(known, indent=1, exclude_defaults=True) + b"\n")
    (folder / "index.md").write_text(index(known))


def index(results: Mapping[str, Result]) -> str:
    """The page with all results, each with a link to its report, and what has none."""
    measured = {name: one for name, one in results.items() if not one.not_measured}
    missing = [name for name in built_in() if name not in measured]
    parts = [NOTE, "# Results\n", INTRODUCTION]
    for host in dict.fromkeys(one.host for one in measured.values()):
        count = sum(one.host == host for one in measured.values())
        parts.append(f"Measured on {escape(host)}: {count} of {len(built_in())} experiments.\n")
    if measured:
        parts += ["| experiment | question | answer | largest effect | date |", "| --- | --- | --- | --- | --- |"]
        for name, one in measured.items():
            cells = map(escape, (load(name)[0].question, one.answer, one.effect, one.date))
            parts.append(f"| {' | '.join([f'[{name}]({name}.md)', *cells])} |")
        parts.append("")
    if missing:
        parts.append("## Not measured yet\n")
        reasons = {name: f": {escape(results[name].not_measured)}" for name in missing if name in results}
        parts += [f"- {_described(name)}{reasons.get(name, '')}" for name in missing]
        parts.append("")
    return "\n".join(parts)


def report_page(name: str, report: str, took: str) -> str:
    """The report of an experiment's study in Markdown as a page: its headings one level up, no commands to go on."""
    report = re.sub(r" \(mydyno resume [^)]*\)", "", report)
    page = re.sub(r"^#(#+ )", r"\1", report, flags=re.MULTILINE).replace("<details>", '<details markdown="1">')
    return f"{NOTE}\n{page}\nThe study of {_described(name)} took {took}. [All results](index.md).\n"


def _described(name: str) -> str:
    """An experiment with a link to what it does."""
    return f"[{name}](../reference/experiments.md#{name.replace('.', '')})"


if __name__ == "__main__":
    write(read())
