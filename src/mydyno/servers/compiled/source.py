"""The source of a build: a commit of a git repository, or a folder known by the hash of its content.

For a repository, the cache holds one clone with a work tree. Every commit of it is built at the same path, so that
paths inside a program (assertions, debug information) are the same for all of them and ccache finds what it has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import lru_cache
from pathlib import Path

from mydyno.errors import BuildError, HostError, UserError
from mydyno.files.atomic import locked, sha256_of
from mydyno.hosts.commands import run_command
from mydyno.hosts.local import Completed, LocalHost
from mydyno.model.definition.source_build import BuildSpec, repository_name
from mydyno.model.frozen_record import Record
from mydyno.packages.progress import Say

FETCH_TIMEOUT_S = 3600.0
MEMCACHED_SOURCE = "memcached.c"
QUIET_GIT = {"GIT_TERMINAL_PROMPT": "0", "GIT_ADVICE": "0"}
"""git must not wait for a password: nothing is interactive."""
PLAIN_GIT = ("-c", "log.showSignature=false", "-c", "core.warnAmbiguousRefs=false")
"""What the user's settings add to a commit."""


class Source(Record):
    """One state of a source."""

    name: str
    """Name of the repository or folder."""
    origin: str
    """The repository as the experiment names it, or the folder."""
    commit: str
    """For git, the full hash of the commit; for a folder, "tree-" and the hash of its content."""
    subject: str = ""
    author: str = ""
    date: str = ""
    """Date of the commit, ISO 8601."""
    unix_s: int = 0
    """The commit's time; 0 for a folder."""
    patch: str = ""
    """The file that is applied to it."""
    patch_sha256: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is no commit."""
        return self.commit.startswith("tree-")

    @property
    def short(self) -> str:
        """For names: twelve letters of the commit."""
        return self.commit.removeprefix("tree-")[:12]


def work_folder(cache: Path, spec: BuildSpec) -> Path:
    """Where every commit of this source is built: clone, prefix and wrappers lie below it."""
    origin = _origin(spec)
    return cache / "builds" / "work" / f"{_name(spec)}-{hashlib.sha256(origin.encode()).hexdigest()[:8]}"


def _origin(spec: BuildSpec) -> str:
    """What identifies the source: the absolute path of a folder, or the URL."""
    where = spec.git or spec.source or ""
    path = Path(where).expanduser()
    return str(path.resolve()) if spec.git is None or path.is_dir() else where


def _name(spec: BuildSpec) -> str:
    origin = _origin(spec)
    return repository_name(origin) if spec.git is not None else (Path(origin).name or "source")


def source_obstacle(spec: BuildSpec) -> str | None:
    """Why the source is not available, as far as that can be known without fetching anything."""
    if spec.patch is not None and not (patch := _patch(spec)).is_file():
        return f"server.build.patch: {patch} is not a file"
    if spec.source is not None:
        return None if Path(_origin(spec)).is_dir() else f"server.build.source: {_origin(spec)} is not a folder"
    if shutil.which("git") is None:
        return "server.build.git needs git, which is not on PATH"
    where = spec.git or ""
    if "://" not in where and ":" not in where.partition("/")[0] and not Path(_origin(spec)).is_dir():
        return f"server.build.git: {where} is neither a folder nor a URL"
    return None


def is_memcached(spec: BuildSpec, cache: Path) -> bool:
    """Whether the source is that of memcached: it has a memcached.c at its top.

    For a repository that was never fetched the name decides, and for a commit that is not there HEAD: what is wrong
    then is the commit, which is named when it is looked up.
    """
    origin, clone = Path(_origin(spec)), work_folder(cache, spec) / "source"
    if spec.git is None:
        return (origin / MEMCACHED_SOURCE).is_file()
    here = [one for one in (origin, clone) if one.is_dir()]
    if not here:
        return _name(spec) == "memcached"
    ref = spec.ref or "HEAD"
    if not any(_has(str(one), ref, "^{commit}") for one in here):
        ref = "HEAD"
    return any(_has(str(one), ref, f":{MEMCACHED_SOURCE}") for one in here)


@lru_cache(maxsize=64)
def _has(repository: str, ref: str, what: str) -> bool:
    """Whether a repository has "^{commit}" or ":FILE" of a ref; remembered: plans ask for every arm, many times."""
    try:
        names = [f"{ref}{what}", f"refs/remotes/origin/{ref}{what}"]
        return any(run_command(["git", "-C", repository, "cat-file", "-e", name]).returncode == 0 for name in names)
    except OSError:
        return False


async def known_source(spec: BuildSpec, cache: Path, host: LocalHost) -> Source | None:
    """The source as far as this host has it; None if the repository would have to be fetched to find the commit.

    Raises UserError for a folder that is not there, and for a commit that a repository on this host lacks.
    """
    _check(spec)
    if spec.git is None:
        return _of_folder(spec)
    local = Path(_origin(spec))
    if local.is_dir():
        return await _found(spec, local, host, is_clone=False)
    clone = work_folder(cache, spec) / "source"
    if not ((clone / ".git").is_dir() and _is_fixed(spec)):
        return None
    return await _commit(spec, clone, host, is_clone=True)


async def get_source(spec: BuildSpec, cache: Path, host: LocalHost, say: Say) -> Source:
    """The source, fetched where this host does not have it. Raises UserError and HostError with git's words."""
    _check(spec)
    if spec.git is None:
        return _of_folder(spec)
    fixed = await _fixed(spec, host)
    return await _found(fixed, await fetched(fixed, cache, host, say), host, is_clone=True)


async def _fixed(spec: BuildSpec, host: LocalHost) -> BuildSpec:
    """The same build with the commit's hash as its ref, where its repository is on this host.

    A clone does not have the repository's remote branches, and not the HEAD of one without a branch, which is what a CI
    service checks out; nor does it learn of a new one.
    """
    local = Path(_origin(spec))
    if not local.is_dir():
        return spec
    return spec.model_copy(update={"ref": (await _found(spec, local, host, is_clone=False)).commit})


async def fetched(spec: BuildSpec, cache: Path, host: LocalHost, say: Say) -> Path:
    """The cache's clone, with the commit that the build names where the repository has it.

    Raises UserError and HostError.
    """
    _check(spec)
    spec = await _fixed(spec, host)
    work = work_folder(cache, spec)
    async with locked(work / ".fetch.lock"):
        await _fetch(spec, work / "source", host, say)
    return work / "source"


async def _fetch(spec: BuildSpec, clone: Path, host: LocalHost, say: Say) -> None:
    origin = _origin(spec)
    if not (clone / ".git" / "HEAD").is_file():
        say(f"cloning {origin}")
        shutil.rmtree(clone, ignore_errors=True)
        aside = clone.with_name(".source.new")
        shutil.rmtree(aside, ignore_errors=True)
        try:
            await git(host, ["clone", "--quiet", "--no-checkout", origin, str(aside)], aside.parent)
            aside.rename(clone)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    elif not (_is_fixed(spec) and await _commit(spec, clone, host, is_clone=True)):
        if not Path(origin).is_dir():
            say(f"fetching {origin}")
        refs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
        await git(host, ["fetch", "--quiet", "--prune", origin, *refs], clone)
        await git(host, ["remote", "set-head", "origin", "--auto"], clone, check=False)
    if spec.ref is not None and await _commit(spec, clone, host, is_clone=True) is None:
        # A commit that no branch or tag reaches: some servers hand it out by its hash.
        await git(host, ["fetch", "--quiet", origin, spec.ref], clone, check=False)


async def check_out(source: Source, spec: BuildSpec, cache: Path, host: LocalHost) -> Path:
    """Fill the work tree with exactly this source, submodules and patch included; returns it.

    The caller holds the work lock. Raises BuildError where a file cannot be copied or the patch does not apply.
    """
    tree = work_folder(cache, spec) / "source"
    if source.is_folder:
        shutil.rmtree(tree, ignore_errors=True)
        try:
            shutil.copytree(source.origin, tree, symlinks=True, ignore=_not_source)
        except OSError as error:
            reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error
            raise BuildError(f"{source.origin} cannot be copied: {reason}") from error
    else:
        await git(host, ["checkout", "--quiet", "--force", "--detach", source.commit], tree)
        await git(host, ["clean", "--quiet", "-ffdx"], tree)
    if not source.is_folder and (tree / ".gitmodules").is_file():
        await git(host, ["submodule", "--quiet", "sync", "--recursive"], tree)
        await git(host, ["submodule", "--quiet", "update", "--init", "--recursive", "--force"], tree)
        await git(host, ["submodule", "--quiet", "foreach", "--recursive", "git clean --quiet -ffdx"], tree)
    if source.patch:
        await _apply(source, tree, host)
    return tree


def _not_source(folder: str, names: list[str]) -> set[str]:
    """Of the names in a folder .git, and sockets, pipes and devices."""
    paths = {name: Path(folder, name) for name in names}
    return {
        name for name, path in paths.items()
        if name == ".git" or not (path.is_symlink() or path.is_dir() or path.is_file())
    }  # fmt: skip


async def _apply(source: Source, tree: Path, host: LocalHost) -> None:
    patch = Path(source.patch)
    if not patch.is_file() or sha256_of(patch) != source.patch_sha256:
        raise BuildError(f"the patch {patch} was changed or removed meanwhile", "start again")
    # Unlike `git apply` it takes patches whose context has moved, as Debian's own tools do.
    done = await host.run(["patch", "-p1", "--batch", "--forward", "--input", str(patch)], cwd=tree)
    if done.exit_code:
        words = done.output.strip()[-600:]
        raise BuildError(f"the patch {patch} does not apply to {source.short}: {words}", "patch -p1 is what applies it")


def clear(source: Source, spec: BuildSpec, cache: Path) -> None:
    """Remove what a build left in the work tree: that of a database server takes gigabytes."""
    tree = work_folder(cache, spec) / "source"
    if source.is_folder:
        shutil.rmtree(tree, ignore_errors=True)
        return
    for path in tree.iterdir():
        if path.name == ".git":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


async def git(host: LocalHost, arguments: list[str], folder: Path, check: bool = True) -> Completed:
    """Run git in a folder. Raises HostError with its words."""
    done = await host.run(["git", *PLAIN_GIT, *arguments], cwd=folder, environment=QUIET_GIT, timeout_s=FETCH_TIMEOUT_S)
    if check and done.exit_code:
        words = done.output.strip()[-600:]
        raise HostError(f"git {arguments[0]} failed: {words}", "is the repository complete, and are you allowed to?")
    return done


async def commit_in(spec: BuildSpec, ref: str, clone: Path, host: LocalHost) -> Source:
    """One commit of a clone. Raises UserError if it has none of that name."""
    return await _found(await _fixed(spec.model_copy(update={"ref": ref}), host), clone, host, is_clone=True)


def _check(spec: BuildSpec) -> None:
    obstacle = source_obstacle(spec)
    if obstacle is not None:
        raise UserError(obstacle)


def _is_fixed(spec: BuildSpec) -> bool:
    """Whether the ref is a commit's hash, which never names another commit."""
    ref = spec.ref or ""
    return len(ref) >= 7 and all(letter in "0123456789abcdef" for letter in ref)


def _unknown(spec: BuildSpec) -> UserError:
    return UserError(
        f"server.build.ref = {spec.ref or 'HEAD'!r}: {spec.git} has no such commit, tag or branch",
        f"git -C {spec.git} log --oneline" if Path(_origin(spec)).is_dir() else "",
    )


async def _found(spec: BuildSpec, folder: Path, host: LocalHost, is_clone: bool) -> Source:
    found = await _commit(spec, folder, host, is_clone)
    if found is None:
        raise _unknown(spec)
    return found


async def _commit(spec: BuildSpec, folder: Path, host: LocalHost, is_clone: bool) -> Source | None:
    """The commit in a repository, of a tag before a branch. In the cache's clone a branch is the origin's: the clone's
    own does not move.
    """
    ref = spec.ref or "HEAD"
    names = [f"refs/tags/{ref}", f"refs/remotes/origin/{ref}", ref] if is_clone else [ref]
    for name in names:
        shown = await git(
            host, ["show", "--no-patch", "--format=%H%x00%ct%x00%cI%x00%an%x00%s", f"{name}^{{commit}}", "--"], folder,
            check=False,
        )  # fmt: skip
        if shown.exit_code == 0:
            commit, unix_s, date, author, subject = shown.output.split("\0", 4)  # with git's warnings before or after
            found = Source(
                name=_name(spec), origin=_origin(spec), commit=commit.rpartition("\n")[2],
                subject=subject.partition("\n")[0], author=author, date=date,
                unix_s=int(unix_s),
            )  # fmt: skip
            return _patched(found, spec)
        if "not a git repository" in shown.output or "dubious ownership" in shown.output:
            raise UserError(f"server.build.git: {spec.git}: {shown.output.strip().splitlines()[0]}")
    return None


def _of_folder(spec: BuildSpec) -> Source:
    root = Path(_origin(spec))
    return _patched(Source(name=root.name or "source", origin=str(root), commit=f"tree-{hash_of_tree(root)}"), spec)


def _patch(spec: BuildSpec) -> Path:
    return Path(spec.patch or "").expanduser().resolve()


def _patched(source: Source, spec: BuildSpec) -> Source:
    if spec.patch is None:
        return source
    return source.model_copy(update={"patch": str(_patch(spec)), "patch_sha256": sha256_of(_patch(spec))})


def hash_of_tree(root: Path) -> str:
    """SHA-256 of the names, modes and contents below a folder, without .git; of a link, its target's name."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*files, *links]):
            path = Path(folder) / name
            if path.is_symlink():
                content = f"link {path.readlink()}"
            elif path.is_file():
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
            else:
                continue
            mode = "x" if os.access(path, os.X_OK) else "-"
            digest.update(f"{path.relative_to(root)}\0{mode}\0{content}\n".encode())
    return digest.hexdigest()
