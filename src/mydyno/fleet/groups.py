"""--hosts as the user writes it: a list of addresses, or a TOML file of groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mydyno.errors import UserError
from mydyno.model.definition.host_groups import HostGroup, groups_of_file, groups_of_list
from mydyno.model.definition.toml_source import toml_text


def parse_hosts(text: str) -> tuple[HostGroup, ...]:
    """The groups that `local`, `bench@vm[01-20]`, a list of these, or the path of a .toml file names.

    Raises UserError for an empty list or range, a host that is named twice, and every mistake of a file.
    """
    if not text.endswith(".toml"):
        return groups_of_list(text)
    try:
        content = Path(text).read_bytes()
    except FileNotFoundError:
        raise UserError(f"--hosts {text}: no such file", "docs/guides/hosts.md has an example") from None
    except OSError as error:
        raise UserError(f"--hosts {text}: cannot be read: {error}") from None
    return groups_of_file(text, toml_text(text, content))


def with_data(groups: Sequence[HostGroup], data: Path) -> tuple[HostGroup, ...]:
    """The groups with `--data` for those that have no folder of their own. Raises UserError for a relative path."""
    if any(group.server for group in groups) and not data.is_absolute():
        raise UserError(f"--data {data}: on other hosts only an absolute path", "it is the same on each host")
    return tuple(group.model_copy(update={"data": group.data or str(data.absolute())}) for group in groups)
