"""Whether the files of a study are valid by their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema

from mydyno.model.stored.schemas import STORED, stored_schema

NOT_JSON = (".parquet", ".cnf", ".log", ".html", ".err", ".gz", ".lock", ".sh")


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = stored_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def documents(folder: Path) -> Iterator[tuple[str, Path, object]]:
    """(name of the schema, file, document) of every JSON document of a study; every file is known or not JSON."""
    left = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in NOT_JSON}
    for name, stored in STORED.items():
        for path in (path for pattern in stored.files for path in sorted(folder.glob(pattern))):
            left.discard(path)
            texts = path.read_text().splitlines() if stored.lines else [path.read_text()]
            yield from ((name, path, json.loads(text)) for text in texts)
    assert left == set(), "files without a schema"


def check(folder: Path, *files: str) -> set[str]:
    """Every document of a study is valid, and each of these patterns has a file; the names of the schemas used."""
    assert [pattern for pattern in files if not list(folder.glob(pattern))] == []
    used = set()
    for name, path, document in documents(folder):
        errors = [f"{path.relative_to(folder)}: {error.json_path}: {error.message[:200]}"
                  for error in validator(name).iter_errors(document)]  # fmt: skip
        assert errors == []
        used.add(name)
    return used
