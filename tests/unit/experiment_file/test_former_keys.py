"""[gates] and [gate], the former names of [validity] and [thresholds]: read as those, in files, --set and studies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiments import source_from_text, vocabulary
from mydyno.model.definition.experiment import Experiment
from mydyno.web.designing import Draft, checked
from tests.unit.cli.test_command_line import mydyno

PRESENT = """base = "variable"
[validity]
steal = 0.2
[thresholds]
qps = "no worse than -2%"
[scale.quick]
validity.steady = "strict"
[scale.quick.thresholds]
qps = "no worse than -5%"
"""
FORMER = PRESENT.replace("validity", "gates").replace("thresholds", "gate")


def read(text: str, *settings: str, scale: str = "quick") -> Experiment:
    return parse_experiment(source_from_text("x.toml", text), vocabulary(), scale, settings)


@pytest.mark.parametrize("scale", ["quick", "standard"])
def test_a_file_with_former_keys_is_the_same_experiment(scale: str) -> None:
    assert read(FORMER, scale=scale) == read(PRESENT, scale=scale)
    assert read(FORMER).validity.steal == 0.2
    assert read(FORMER, "gates.steal=0.4", "gate.qps=none") == read(
        PRESENT, "validity.steal=0.4", "thresholds.qps=none"
    )


def test_a_mistake_has_the_line_of_the_former_key() -> None:
    with pytest.raises(UserError, match=r"x.toml:3: validity.steal = 2: out of range"):
        read(FORMER.replace("steal = 0.2", "steal = 2"))
    with pytest.raises(UserError, match=r"x.toml:9: thresholds.qsp: unknown metric"):
        read(FORMER.replace('qps = "no worse than -5%"', 'qsp = "no worse than -5%"'))


@pytest.mark.parametrize("former", ["gates.steal = 0.1", "[scale.standard.gates]\nsteal = 0.1"])
def test_a_file_with_both_names_is_refused(former: str) -> None:
    with pytest.raises(UserError, match="gates: is the former name of validity, which the file has too"):
        read('base = "variable"\n' + former + "\n[scale.quick.validity]\nsteal = 0.2\n")


def test_a_stored_experiment_has_the_present_names_and_is_read_with_either() -> None:
    stored = json.loads(read(PRESENT).model_dump_json())
    assert {"validity", "thresholds"} <= stored.keys()
    former = {**stored, "gates": stored["validity"], "gate": stored["thresholds"]}
    del former["validity"], former["thresholds"]
    assert Experiment.model_validate(former) == read(PRESENT)


def test_a_command_prints_one_line_on_former_keys(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(FORMER)
    done = mydyno(tmp_path, "plan", "x.toml", "--json")
    words = "[gates] is now [validity], [gate] is now [thresholds]; the former name still works"
    assert done.stderr.splitlines() == [f"mydyno: hint: x.toml: {words}"], done.stderr
    assert json.loads(done.stdout)["experiment"]["validity"]["steal"] == 0.2
    done = mydyno(tmp_path, "plan", "variable", "--json", "--set", "gates.steal=0.2")
    assert done.stderr.splitlines() == [
        "mydyno: hint: variable: [gates] is now [validity]; the former name still works"
    ]


def test_the_form_of_a_draft_with_former_keys_has_the_present_ones() -> None:
    shown = checked(Draft("gates = 5\nsteps = []\n"), start_programs=False)
    assert list(shown["tree"]) == ["validity", "steps"]
    assert shown["mistakes"] is not None
