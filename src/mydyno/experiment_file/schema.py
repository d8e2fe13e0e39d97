"""The JSON Schema of an experiment file, made from the types that validate it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mydyno.experiment_file.arms import OPTION_FILE, VARIED, Vocabulary
from mydyno.experiment_file.overrides import ARM_SECTIONS
from mydyno.experiment_file.parsing import FIELDS_AT
from mydyno.experiment_file.thresholds import limit_schema
from mydyno.model.definition.experiment import (
    FILE_KINDS,
    MOST_INSTANCES,
    ScreenSpec,
    StepSpec,
)
from mydyno.model.phrases import COMMON_NAMES

SECTIONS = {name: model for name, model in FIELDS_AT.items() if name.isalpha() and name != "steps"}


def experiment_schema(vocabulary: Vocabulary) -> dict[str, Any]:
    """JSON Schema 2020-12 of the file form: [arms], [factors] or [vary], [scale.NAME], names of this version."""
    models: list[type[BaseModel]] = [*SECTIONS.values(), StepSpec, ScreenSpec]
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    defs = definitions["$defs"]
    defs["ServerSpec"]["properties"]["name"] = {"enum": list(vocabulary.servers)}
    defs["StepSpec"]["properties"]["workload"] = {"enum": list(vocabulary.workload_options)}
    defs["StepSpec"]["properties"]["options"] = {
        "type": "object",
        "properties": {
            name: schema
            for options in vocabulary.workload_options.values()
            for name, schema in options.model_json_schema()["properties"].items()
        },
        # A script has options of its own.
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    }
    defs["StepSpec"]["required"] = []
    defs["StepSpec"]["anyOf"] = [{"required": [key]} for key in ("workload", *FILE_KINDS)]
    primary = defs["VerdictSpec"]["properties"]["primary"]
    named = _one_or_several([*vocabulary.metrics, *COMMON_NAMES])
    defs["VerdictSpec"]["properties"]["primary"] = {"description": primary["description"], **named}
    treatments = {name: adapter.json_schema() for name, adapter in vocabulary.treatments.items()}
    treatments["server"]["oneOf"][0] = {"enum": list(vocabulary.servers)}
    instances = {"type": "integer", "minimum": 1, "maximum": MOST_INSTANCES}
    own_file = {
        OPTION_FILE: {"type": "string", "description": "an option file (my.cnf) whose options are variables of the arm"}
    }
    said = {"instances": instances, "control": {"type": "string"}, **own_file}
    lifted = _lifted(treatments, defs)
    arm = {"type": "object", "properties": {**said, **lifted}, "additionalProperties": False}
    properties: dict[str, Any] = {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$"},
        "base": {"type": "string", "description": "a built-in experiment; the file contains only what differs"},
        "question": {"type": "string", "minLength": 3},
        "description": {"type": "string"},
        "published": {"type": "array", "items": {"type": "string"}},
        "instances": instances,
        **{name: {"$ref": f"#/$defs/{model.__name__}"} for name, model in SECTIONS.items()},
        "thresholds": limit_schema(),
        "steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/StepSpec"}},
        "arms": {
            "type": "object",
            "properties": {"control": {"type": "string"}},
            "required": ["control"],
            "additionalProperties": arm,
        },
        "treatments": {
            "description": "what every arm has; an arm's own comes before it",
            "type": "object",
            "properties": {**own_file, **lifted},
            "additionalProperties": False,
        },
        "factors": {"type": "object", "properties": {"control": {"type": "string"}}, "required": ["control"]},
        "vary": {
            "type": "object",
            "properties": {name: {"type": "object"} for name in VARIED},
            "additionalProperties": False,
        },
        "screen": {"$ref": "#/$defs/ScreenSpec"},
        "scale": {"type": "object", "additionalProperties": {"type": "object"}},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mydyno experiment",
        "type": "object",
        "properties": properties,
        "if": {"required": ["base"]},
        "else": {
            "required": ["name", "question", "server", "steps"],
            "oneOf": [{"required": [section]} for section in ARM_SECTIONS],
        },
        "additionalProperties": False,
        "$defs": defs,
    }


def _one_or_several(names: list[str]) -> dict[str, Any]:
    return {"anyOf": [{"enum": names}, {"type": "array", "minItems": 1, "maxItems": 4, "items": {"enum": names}}]}


def _lifted(schemas: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """The schemas with their own definitions moved to the common ones."""
    for schema in schemas.values():
        defs.update(schema.pop("$defs", {}))
    return schemas
