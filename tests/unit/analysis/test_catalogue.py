"""The list of analyses has every one of them, and each declares what belongs together."""

from __future__ import annotations

from pkgutil import iter_modules

import mydyno.analysis
from mydyno.analysis import catalogue
from mydyno.analysis.base import Analysis
from mydyno.model.stored.summary import Summary


def test_every_analysis_is_listed_once() -> None:
    names = {one.name for one in iter_modules(mydyno.analysis.__path__)} - {"base", "catalogue"}
    modules = [vars(getattr(catalogue, name)) for name in names]
    listed = [one for module in modules for one in module.values() if isinstance(one, Analysis)]
    assert sorted(map(id, listed)) == sorted(map(id, catalogue.ANALYSES))


def test_what_is_stored_is_a_field_of_the_summary() -> None:
    fields = [one.stored for one in catalogue.ANALYSES if one.stored]
    assert len(fields) == len(set(fields)) and set(fields) <= Summary.model_fields.keys()
    assert all((one.analyse is not None) == bool(one.stored) for one in catalogue.ANALYSES)
