"""What to build a server from: source, command, and what an arm changes of it. Frozen; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mydyno.model.definition.problems import Key, Problem
from mydyno.model.definition.quantities import PositiveDuration

MOST_BUILDS = 40
"""Most builds of one commit: as many as the last look has blocks."""


def _plain(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("a text that is not empty")
    return text


_Text = Annotated[str, AfterValidator(_plain)]


def _ref(text: str) -> str:
    if text.startswith("-") or any(not letter.isprintable() or letter.isspace() for letter in text) or not text:
        raise ValueError("a commit, tag or branch")
    return text


class BuildSpec(BaseModel):
    """A server built from source: `git` with `ref`, or a folder, and the command that builds it.

    The command is executed with `sh -e -c` in a copy of the source, with your privileges. It installs the server into
    the folder $PREFIX; a memcached may also be left in the source folder. $JOBS is the number of CPUs. Of MySQL and
    MariaDB it must install mariadbd or mysqld in bin, sbin or libexec, share/english/errmsg.sys, and in share
    mysql_system_tables.sql and mysql_system_tables_data.sql (MariaDB 11: mariadb_…).

    Each commit is built once. Other files that the command reads do not identify the build: give a changed one another
    name. The installed tree is moved: a program that must find its own libraries needs $ORIGIN in its rpath. Studies
    over hosts do not build: pack the build as a tar archive and use `mydyno servers add`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    git: _Text | None = Field(
        None, examples=["/src/mariadb"], description="a git repository: its folder on this host, or its URL"
    )
    ref: Annotated[str, AfterValidator(_ref)] | None = Field(
        None, examples=["mariadb-11.4.5"], description="with git: the commit, tag or branch; default: HEAD"
    )
    source: _Text | None = Field(
        None, examples=["../memcached-1.6.40"], description="in place of git: a folder with the source"
    )
    patch: _Text | None = Field(
        None, examples=["faster-commit.patch"], description="a file with a patch, applied with patch -p1 before the "
        "command; its content is part of what identifies the build",
    )  # fmt: skip
    command: _Text | None = Field(
        None,
        examples=["./configure --prefix=$PREFIX && make install"],
        description="builds it and installs it into $PREFIX",
    )
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        default_factory=dict, examples=[{"CFLAGS": "-O2 -g"}], description="of the command; nothing of the shell's own "
        "is passed on but PATH, HOME, TZ and TMPDIR",
    )  # fmt: skip
    builds: int = Field(
        1, ge=1, le=MOST_BUILDS,
        description="number of builds, each with another memory layout; they alternate over the blocks",
    )  # fmt: skip
    timeout: PositiveDuration = Field(7200.0, description="of the command")

    @property
    def words(self) -> str:
        """For plan and progress: "memcached at 1.6.18", "the folder src/memcached"."""
        patched = "" if self.patch is None else f" with {self.patch.rpartition('/')[2]}"
        if self.git is None:
            return f"the folder {self.source}{patched}"
        name = repository_name(self.git if ":" in self.git else str(Path(self.git).absolute()))
        return f"{name} at {self.ref or 'HEAD'}{patched}"


def repository_name(git: str) -> str:
    """The last part of a repository's folder or URL: server of https://host/MariaDB/server.git."""
    last = git.rstrip("/").removesuffix("/.git").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in last).strip(".-") or "source"


def with_base(given: Mapping[str, Any], base: object) -> dict[str, Any]:
    """What an arm sets of a build, over the experiment's own build: another source replaces git and ref."""
    if not isinstance(base, Mapping):
        return dict(given)
    kept = dict(base)
    if "source" in given:
        kept = {key: value for key, value in kept.items() if key not in ("git", "ref")}
    if "git" in given or "ref" in given:
        kept.pop("source", None)
    environment = {**_table(kept.get("environment")), **_table(given.get("environment"))}
    return {**kept, **given, **({"environment": environment} if environment else {})}


def _table(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def incomplete(key: Key, build: BuildSpec) -> list[Problem]:
    """What a build lacks, or has too much of."""
    problems = []
    if (build.git is None) == (build.source is None):
        problems.append(
            Problem(key, "has both git and source" if build.git else "has no source", allowed="git = …, or source = …")
        )
    if build.source is not None and build.ref is not None:
        problems.append(Problem((*key, "ref"), "a folder of source has no commits", build.ref, allowed="with git"))
    if build.command is None:
        problems.append(Problem((*key, "command"), "is missing", allowed='command = "…", which installs into $PREFIX'))
    return problems


def of_every_arm(tree: dict[str, Any], arms: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """{arm: its treatments} with each arm's whole build: its own settings over those of [server].

    An arm without a server of its own has the experiment's build as its treatment, so that it is proved like one.
    """
    server = tree.get("server")
    base = server.get("build") if isinstance(server, dict) else None
    found = {}
    for name, treatments in arms.items():
        own = treatments.get("server")
        if isinstance(own, dict) and isinstance(own.get("build"), dict):
            found[name] = {**treatments, "server": {**own, "build": with_base(own["build"], base)}}
        elif "server" not in treatments and isinstance(base, dict):
            found[name] = {"server": {"build": dict(base)}, **treatments}
        else:
            found[name] = treatments
    return found
