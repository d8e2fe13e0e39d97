"""Sources of builds: a commit, a folder, a patch, and those that are not there."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

import pytest

from mydyno.errors import BuildError, UserError
from mydyno.model.definition.source_build import BuildSpec
from mydyno.packages.progress import silent
from mydyno.servers.compiled.compile import get_compiled, read_builds
from mydyno.servers.compiled.source import check_out, fetched, get_source, hash_of_tree, is_memcached
from tests.support.memcached_commits import commit, git
from tests.support.stand_in import COMMAND, HOST, spec


async def test_a_folder_is_known_by_its_content(repository: Path, cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(repository, folder)
    own = BuildSpec(source=str(folder), command=COMMAND)
    (build,) = await get_compiled(own, cache, HOST, silent)
    assert build.compiled is not None
    assert build.compiled.commit == f"tree-{hash_of_tree(folder)}"
    assert not (folder / "memcached").exists(), "it is built in a copy"
    before = hash_of_tree(folder)
    (folder / "line.c").write_text("int line(void) { return 0 * 3; }\n")
    assert hash_of_tree(folder) != before
    (changed,) = await get_compiled(own, cache, HOST, silent)
    assert changed.program != build.program


PATCH = """--- a/line.c
+++ b/line.c
@@ -1 +1 @@
-{before}
+int line(void) {{ return {number} - {number}; }}
"""


@pytest.mark.parametrize("kind", ["git", "source"])
async def test_a_patch_is_applied_and_its_content_is_part_of_the_build(
    repository: Path, cache: Path, tmp_path: Path, kind: str
) -> None:
    """A source package is a folder without commits."""
    before, patch = (repository / "line.c").read_text().strip(), tmp_path / "my.patch"
    plain = BuildSpec.model_validate({kind: str(repository), "command": COMMAND})
    patched = plain.model_copy(update={"patch": str(patch)})
    programs, names = set(), set()
    for number in (7, 8, 7):
        patch.write_text(PATCH.format(before=before, number=number))
        (build,) = await get_compiled(patched, cache, HOST, silent)
        assert build.compiled is not None
        assert build.compiled.words.endswith(" with my.patch")
        assert build.compiled.facts["patch_sha256"] == hashlib.sha256(patch.read_bytes()).hexdigest()
        programs.add(build.compiled.sha256)
        names.add(build.compiled.name)
    (unpatched,) = await get_compiled(plain, cache, HOST, silent)
    assert unpatched.compiled is not None
    assert unpatched.compiled.name not in names, "nothing of a patch is left in the work tree"
    assert len(names) == len(read_builds(cache)) - 1 == 2
    assert len(programs | {unpatched.compiled.sha256}) >= 2
    patch.write_text(PATCH.format(before="another line", number=9))
    with pytest.raises(BuildError, match=r"(?s)my\.patch does not apply to .*FAILED"):
        await get_compiled(patched, cache, HOST, silent)
    patch.unlink()
    with pytest.raises(UserError, match=r"server\.build\.patch: .*my\.patch is not a file"):
        await get_compiled(patched, cache, HOST, silent)


def test_a_repository_is_named_by_its_folder_also_as_a_dot(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    assert BuildSpec(git=".", ref="HEAD^1", command="make").words == "stand-in at HEAD^1"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ref": "no-such-branch"}, "server.build.ref = 'no-such-branch'"),
        ({"git": "/nowhere/at/all"}, "/nowhere/at/all is neither a folder nor a URL"),
        ({"git": None, "source": "/nowhere/at/all"}, "/nowhere/at/all is not a folder"),
    ],
)
async def test_a_source_that_is_not_there_is_a_users_mistake(
    repository: Path, cache: Path, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError) as error:
        await get_compiled(spec(repository, **changes), cache, HOST, silent)
    assert words in error.value.message


def test_memcached_is_recognised_by_its_source(repository: Path, cache: Path, tmp_path: Path) -> None:
    assert is_memcached(spec(repository), cache)
    (tmp_path / "server").mkdir()
    assert not is_memcached(BuildSpec(source=str(tmp_path / "server"), command="make"), cache)
    assert is_memcached(BuildSpec(git="https://host.example/me/memcached.git", command="make"), cache)
    assert not is_memcached(BuildSpec(git="https://host.example/MariaDB/server.git", command="make"), cache)
    assert is_memcached(spec(repository, ref="not-there"), cache), "the ref is wrong, not the kind of server"


async def test_a_repository_that_is_not_there_is_a_users_mistake_also_where_it_is_fetched(cache: Path) -> None:
    with pytest.raises(UserError, match="is neither a folder nor a URL"):
        await fetched(spec(Path("/not/there")), cache, HOST, silent)
    assert not cache.exists()


async def test_a_name_of_a_tag_and_a_branch_is_the_tag(repository: Path, cache: Path) -> None:
    tagged = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "both")
    (repository / "line.c").write_text("int line(void) { return 3 - 3; }\n")
    commit(repository, "Go on")
    git(repository, "branch", "both")
    for where in (str(repository), f"file://{repository}"):
        found = await get_source(spec(repository, git=where, ref="both"), cache, HOST, silent)
        assert (found.commit, found.subject) == (tagged, git(repository, "show", "-s", "--format=%s", tagged))


async def test_a_folder_with_a_pipe_a_socket_and_links_is_built(repository: Path, cache: Path) -> None:
    os.mkfifo(repository / "pipe")
    os.mknod(repository / "socket", stat.S_IFSOCK | 0o600)
    (repository / "gone").symlink_to("nowhere")
    (repository / "linked").symlink_to(repository.parent)
    own = BuildSpec(source=str(repository), command=f"test -L linked && test -L gone && test ! -e pipe && {COMMAND}")
    (build,) = await get_compiled(own, cache, HOST, silent)
    assert build.compiled is not None
    before = hash_of_tree(repository)
    (repository / "linked").unlink()
    (repository / "linked").symlink_to(cache)
    assert hash_of_tree(repository) != before


async def test_a_folder_that_is_removed_meanwhile_is_an_error_with_the_reason(repository: Path, cache: Path) -> None:
    own = BuildSpec(source=str(repository), command=COMMAND)
    source = await get_source(own, cache, HOST, silent)
    shutil.rmtree(repository)
    with pytest.raises(BuildError, match=r"cannot be copied: .*No such file"):
        await check_out(source, own, cache, HOST)
