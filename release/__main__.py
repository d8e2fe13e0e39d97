"""The order of the steps of release/build."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from release.deb import build_deb
from release.distributions import build_engine, build_engine_sdist, build_mydyno
from release.image import write_context
from release.sbom import write_engine_sbom, write_python_sbom
from release.source import ReleaseError, Source

ROOT = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"


def main() -> int:
    """0: done; 1: a build failed, or two builds differ; 2: wrong arguments."""
    parser = argparse.ArgumentParser(prog="release/build", description="Make the files of a release.")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", metavar="DIR", help="default: dist/; is emptied first"
    )
    parser.add_argument("--check", action="store_true", help="build a second time elsewhere, and compare")
    parser.add_argument("--image", action="store_true", help="also the context of the container image (about 150 MB)")
    parser.add_argument("--dirty", action="store_true", help="build with changes that are not committed: no release")
    arguments = parser.parse_args()
    if arguments.check and arguments.dirty:
        parser.error("--check builds the commit: it cannot be used with --dirty")
    os.umask(0o022)
    try:
        source = Source.of_checkout(ROOT, arguments.dirty)
        target = Path(os.environ["MYDYNO_CACHE"], "release/target")
        build(source, target, arguments.out.resolve())
        # What was changed while it was built could be in the files.
        source.must_be_unchanged(arguments.dirty)
        if arguments.check:
            check(source, arguments.out.resolve())
        if arguments.image:
            write_context(source, arguments.out.resolve())
    except ReleaseError as error:
        print(f"release: error: {error}", file=sys.stderr)
        return 1
    print((arguments.out / SUMS).read_text(), end="")
    return 0


def build(source: Source, target: Path, out: Path) -> None:
    """All files of a release; a folder of an earlier one is replaced when everything is built."""
    if out.exists() and not (out / SUMS).is_file() and any(out.iterdir()):
        raise ReleaseError(f"{out} is not empty and not the folder of a release")
    aside = out.with_name(f".{out.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    write_files(source, target, aside)
    shutil.rmtree(out, ignore_errors=True)
    aside.rename(out)


def write_files(source: Source, target: Path, out: Path) -> None:
    """All files of a release into an empty folder."""
    wheel = build_engine(source, target, out)
    build_engine_sdist(source, out)
    build_mydyno(source, out)
    build_deb(source, wheel, out)
    write_engine_sbom(source, wheel, out)
    write_python_sbom(source, out)
    shutil.copy(source.folder / "requirements.lock", out / f"mydyno-{source.version}-requirements.lock")
    (out / SUMS).write_text(checksums(out))


def checksums(folder: Path) -> str:
    """As sha256sum prints them."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != SUMS
    )


def check(source: Source, out: Path) -> None:
    """Build the commit again in another folder with nothing of the first build. Raises ReleaseError if files differ."""
    with tempfile.TemporaryDirectory(prefix="mydyno-release-") as scratch:
        again = Path(scratch, "out")
        build(source.copy(Path(scratch, "another/source")), Path(scratch, "target"), again)
        first, second = (set((folder / SUMS).read_text().splitlines()) for folder in (out, again))
        if first != second:
            names = sorted({line.split()[1] for line in first ^ second})
            kept = out.with_name(f"{out.name}-second")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(again, kept)
            raise ReleaseError(f"not reproducible: {', '.join(names)}\nthe second build is in {kept}")
    print("release: the second build has the same files", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
