"""What a build is made from: the files that COPY names, and .dockerignore lets in."""

from __future__ import annotations

import shutil
from fnmatch import fnmatch
from pathlib import Path

from tests.infra.image.dockerfile import DOCKERFILE, ROOT, Image

IGNORE = DOCKERFILE.with_name("Dockerfile.dockerignore")


def copied(image: Image, to: Path) -> None:
    """Copy into a folder what the first stage copies into its own."""
    for each in image.build.all("COPY"):
        *sources, target = each.text.split()
        for source in sources:
            for path in sorted(ROOT.glob(source.removeprefix("./"))):
                copy(path, to / target if path.is_dir() else to / target / path.name)


def copy(path: Path, to: Path) -> None:
    """Copy a file or a folder, if it is let in."""
    name = str(path.relative_to(ROOT))
    if not let_in(name):
        raise FileNotFoundError(f"{name} is not let into the build by {IGNORE.name}")
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(path, to)


def let_in(name: str) -> bool:
    """Return whether the last line of .dockerignore that fits a name lets it in."""
    found = True
    for line in IGNORE.read_text("utf-8").splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#") and fits(pattern, name):
            found = pattern.startswith("!")
    return found


def fits(pattern: str, name: str) -> bool:
    """Return whether a line speaks of a name, or of a folder above it."""
    wanted = pattern.removeprefix("!").removeprefix("**/")
    parts = [*Path(name).parents, Path(name)]
    return any(fnmatch(str(part), wanted) for part in parts if str(part) != ".")
