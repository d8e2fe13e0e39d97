"""The documentation is tested: reference pages are current, and everything a user meets has its heading."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from docs import result_pages
from docs.reference_pages import OPTIONS, SECTIONS, pages
from docs.sizes import SECTION, sizes
from pydantic import BaseModel, create_model

from mydyno.cli import COMMANDS, make_app
from mydyno.experiments import built_in
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import METRICS
from mydyno.model.stored.analyses import CandidateRecord
from mydyno.model.stored.live import LiveEnded, LiveNote, LiveOpened, LivePrecision, LiveRun, LiveSecond
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import (
    CostRecord,
    CostsRecord,
    HostGroupsRecord,
    HostsEffect,
    InterleavingRecord,
    OperationTime,
    Summary,
)
from mydyno.treatments.catalogue import TREATMENTS
from tests.support import ROOT


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def test_reference_pages_are_current(made: dict[str, str]) -> None:
    stale = [name for name, text in made.items() if (ROOT / "docs/reference" / name).read_text() != text]
    assert stale == [], "run docs/generate"


def test_each_page_of_results_is_of_a_built_in_experiment_and_the_index_has_all() -> None:
    results = result_pages.read()
    pages_of = {path.name for path in result_pages.FOLDER.iterdir()} - {"index.md", result_pages.RECORDS}
    assert pages_of == {f"{name}.md" for name, one in results.items() if not one.not_measured}
    assert set(results) <= set(built_in())
    text = (result_pages.FOLDER / "index.md").read_text()
    assert text == result_pages.index(results), "run docs/generate"
    _, _, missing = text.partition("\n## Not measured yet\n")
    assert set(re.findall(r"^- \[([^]]+)\]", missing, re.MULTILINE)) == {
        name for name in built_in() if f"{name}.md" not in pages_of
    }


def test_the_sizes_are_about_current() -> None:
    stated = re.search(SECTION, (ROOT / "docs/architecture.md").read_text())
    assert stated is not None
    found = {name: int(count.replace(",", "")) for name, count in re.findall("- (.+): ([0-9,]+)", stated[0])}
    assert found == pytest.approx(sizes(ROOT), rel=0.03), "run docs/generate"


def test_every_command_metric_treatment_and_verdict_has_its_words(made: dict[str, str]) -> None:
    for name, command in typer.main.get_group(make_app(list(COMMANDS))).commands.items():
        own = [f"{name} {sub}" for sub in getattr(command, "commands", ())]
        assert [one for one in (name, *own) if f"\n## {one}\n" not in made["commands.md"]] == []
    assert all(f"`{metric}`" in made["metrics.md"] for metric in METRICS)
    assert all(f"### {treatment}\n" in made["experiment.md"] for treatment in TREATMENTS)
    empty = re.findall(r"^### (\w+)\n\n\n", "\n".join(made.values()), re.MULTILINE)
    assert empty == []


@pytest.mark.parametrize(
    "row",
    [
        '`timeout` | duration | `"10m"` |', '`washout` | duration | `"150ms"` |', '`margin` | percentage | `"2%"` |',
        "`connections` | whole number, or a list | `[16]` |", '`steady` | one of `"strict"`, `"report"` | `"report"` |',
        "`ref` | text | HEAD | with git: the commit, tag or branch, ", "`compare` | list of tables |  |",
        '`limit` | duration | required | its highest value, e.g. `"20ms"` |',
    ],
)  # fmt: skip
def test_a_key_has_its_type_and_its_default_as_in_a_file(made: dict[str, str], row: str) -> None:
    assert f"\n| {row}" in made["experiment.md"]


def test_each_key_is_shown_as_written_by_its_default_its_choices_or_a_valid_example(made: dict[str, str]) -> None:
    rows = re.findall(r"^\| (`\w+`) \| (.+?) \| (.*?) \| (.*) \|$", made["experiment.md"], re.MULTILINE)
    assert len(rows) > 130
    assert [key for key, kind, default, meaning in rows if not ("`" in kind + default or "e.g. `" in meaning)] == []
    for model in (*SECTIONS.values(), *OPTIONS.values()):
        for field in model.model_fields.values():
            assert field.annotation is not None
            for example in field.examples or ():
                create_model("Example", value=(field.annotation, field))(value=example)


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target, heading in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", page.read_text()):
            path = page.parent / target if target else page
            if not path.exists() or (heading and heading not in headings(path)):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{heading}")
    assert broken == []


def test_the_site_has_every_page_and_builds_without_a_warning(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    settings = shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    named = set(re.findall(r'= "(.+\.md)"', Path(settings).read_text()))
    named |= {f"results/{name}.md" for name, one in result_pages.read().items() if not one.not_measured}  # by the index
    assert named == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert all((tmp_path / "build/site" / name.removesuffix("index.md").removesuffix(".md") / "index.html").is_file()
               for name in named)  # fmt: skip


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same level."""
    return (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("model", "heading"),
    [(SliceRecord, "slices.jsonl"), (Plan, "plan.json"), (Summary, "summary.json"),
     (InterleavingRecord, "summary.json"), (HostGroupsRecord, "summary.json"), (HostsEffect, "summary.json"),
     *((one, "live.jsonl") for one in (LiveOpened, LiveSecond, LiveRun, LivePrecision, LiveNote, LiveEnded)),
     (CostsRecord, "summary.json"), (CostRecord, "summary.json"), (OperationTime, "summary.json"),
     (CandidateRecord, "summary.json")],
)  # fmt: skip
def test_every_field_of_the_study_folder_is_described(model: type[BaseModel], heading: str) -> None:
    text = section("docs/reference/study-files.md", heading)
    names = {field.alias or name for name, field in model.model_fields.items() if not field.exclude}
    names -= {"format", "experiment", "question", "study"}  # said once, for all documents
    assert {name for name in names if not re.search(rf"`{name}(\[\]|\[\w+\])*`", text)} == set()


def test_every_journal_event_is_described() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src/mydyno").rglob("*.py"))
    events = set(re.findall(r"""\w\.journal\.append\(\s*"(\w+)\"""", source))
    events |= set(re.findall(r"""^\w+_EVENT = "(\w+)"$""", source, re.MULTILINE))
    text = section("docs/reference/study-folder.md", "journal.jsonl")
    assert {"block_finished", "pilot", "precision"} <= events
    assert {event for event in events if f"`{event}`" not in text} == set()


INHERITED = {"HOME", "PATH", "TERM", "COLUMNS", "USER", "CARGO_MANIFEST_DIR"}
"""Variables with their usual meaning."""


def test_every_benchmark_that_is_named_exists() -> None:
    code = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    named = {(name, path.name) for path in code for name in re.findall(r"bench/run ([a-z]+)", path.read_text())}
    assert len(named) > 10
    assert [one for one in sorted(named) if not (ROOT / f"bench/{one[0]}.py").is_file()] == []


def test_every_environment_variable_is_described() -> None:
    code = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "engine").rglob("*.rs")]
    code += [ROOT / name for name in ("bootstrap.sh", "test", "mydyno")]
    used = {name for path in code for name in re.findall(r"\bM?Y?DYNO_[A-Z][A-Z_]+[A-Z]\b", path.read_text())}
    described = set(re.findall(r"`\$?([A-Z][A-Z_]+)\b", (ROOT / "docs/reference/environment.md").read_text()))
    read = r"""(?:os\.environ\.get\(|os\.environ\[|os\.getenv\(|env::var(?:_os)?\()\s*"([A-Z][A-Z_]+)\""""
    product = [path for path in code if not path.is_relative_to(ROOT / "tests") and "tests" not in path.parts]
    used |= {name for path in product for name in re.findall(read, path.read_text())} - INHERITED
    assert {"MYDYNO_CACHE", "DYNO_PASSWORD", "LUA_PATH"} <= used
    assert used - described == set()


def test_the_readme_counts_the_built_in_experiments_and_their_page_has_each(made: dict[str, str]) -> None:
    assert f"{len(built_in())} built-in experiments" in (ROOT / "README.md").read_text()
    assert [name for name in built_in() if f"\n## {name}\n" not in made["experiments.md"]] == []
