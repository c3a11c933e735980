"""Name the code of a pipeline, so that each piece of work can say which code made it.

    PIECEWORK_CODE_VERSION      what the deployment says; it comes before all others
    sha256:1f0c…                the image of the container, as ECS names it
    git:9a3b…                   the revision of a checkout without changes
    git:9a3b…-dirty-77aa…       the same with changes, and a hash of the loaded files
    files:77aa…                 the loaded files of the pipeline's own code

Two names differ if the code differs. Equal code may have two names, in an image and in
a checkout: then say which it is by the variable.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from inspect import getsource, unwrap
from pathlib import Path
from types import ModuleType
from typing import Any

from piecework.domain import keys
from piecework.pipelines import Pipeline, variants
from piecework.settings import Settings

#: Characters of a digest or a revision, and of the hash of a dirty tree's files.
DIGEST, DIRTY_DIGEST = 12, 8
#: Seconds that git may take; a checkout on a slow disk then counts as files.
GIT_S = 5.0
#: Parts of a path that tell that others wrote the code in it.
INSTALLED = {"site-packages", "dist-packages"}
#: Pipelines of a process, at most; a program may declare them in functions.
MOST = 1_000
IMAGE = re.compile(r"sha256:[0-9a-f]{64}")
#: The versions of the pipelines of this process: git takes hundredths of a second.
_KNOWN: dict[int, tuple[Pipeline, str]] = {}


def code_versions(
    pipelines: Iterable[Pipeline], settings: Settings, image: str = ""
) -> dict[str, str]:
    """Return the code version of each pipeline, by its name; see `code_version`."""
    return {each.name: code_version(each, settings, image) for each in pipelines}


def code_version(pipeline: Pipeline, settings: Settings, image: str = "") -> str:
    """Return the code version of a pipeline: at most 64 characters.

    `image`: the digest of the process's image, such as `sha256:1f0c…`; empty: it is not
    known. An empty version: nothing tells which code it is.
    """
    if settings.code_version:
        return settings.code_version
    if IMAGE.fullmatch(image):
        return image[: len("sha256:") + DIGEST]
    known = _KNOWN.get(id(pipeline))
    if known is None or known[0] is not pipeline:
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        known = _KNOWN[id(pipeline)] = pipeline, _found(pipeline)
    return known[1]


def _found(pipeline: Pipeline) -> str:
    """Return what the checkout tells, or a hash of the files."""
    objects = list(_objects(pipeline))
    files = dict(_files(objects))
    sources = {name: path.read_bytes() for name, path in files.items()}
    if not files:  # a notebook: its cells have no file
        sources = dict(_cells(objects))
    if not sources:
        return ""
    digest = keys.sha256(b"".join(_parts(sources)))
    revision, is_dirty = _revision(next(iter(files.values()), None))
    if not revision:
        return f"files:{digest[:DIGEST]}"
    dirty = f"-dirty-{digest[:DIRTY_DIGEST]}" if is_dirty else ""
    return f"git:{revision[:DIGEST]}{dirty}"


def _parts(sources: Mapping[str, bytes]) -> Iterator[bytes]:
    for name in sorted(sources):
        yield f"{name}\0{len(sources[name])}\0".encode()
        yield sources[name]


def _objects(pipeline: Pipeline) -> Iterator[Any]:
    """Yield the functions of a pipeline and the model of its payload."""
    for stage in pipeline.stages:
        yield from map(unwrap, variants(stage).values())
    if pipeline.join is not None:
        yield unwrap(pipeline.join)
    yield pipeline.payload


def _files(objects: Iterable[Any]) -> Iterator[tuple[str, Path]]:
    """Yield the loaded files of the pipeline's own code, each by its path in a root.

    The root of a module is the folder from which its package is imported. Beneath it,
    each loaded file counts: a prompt may be in another module. Of installed packages
    only the pipeline's own count.
    """
    own = {getattr(each, "__module__", "") for each in objects}
    for first in sorted({name.partition(".")[0] for name in own} - {"piecework"}):
        root = _root(sys.modules.get(first))
        if root is None:
            continue
        is_installed = not INSTALLED.isdisjoint(root.parts)
        for name, module in list(sys.modules.items()):
            path = _path(module)
            if path is None or not path.is_relative_to(root):
                continue
            within = path.relative_to(root)
            if is_installed:
                if name.partition(".")[0] == first:
                    yield str(within), path
            elif INSTALLED.isdisjoint(within.parts):
                yield str(within), path


def _root(module: ModuleType | None) -> Path | None:
    """Return the folder that a module of the first level is in."""
    path = _path(module)
    if path is None:  # a namespace has folders and no file
        folders = list(getattr(module, "__path__", ()))
        return Path(folders[0]).resolve().parent if folders else None
    return path.parent.parent if hasattr(module, "__path__") else path.parent


def _path(module: ModuleType | None) -> Path | None:
    found = getattr(module, "__file__", None)
    path = Path(found) if isinstance(found, str) else None
    return path.resolve() if path is not None and path.is_file() else None


def _cells(objects: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the source of each function that has one."""
    for each in objects:
        try:
            yield each.__qualname__, getsource(each).encode()
        except (OSError, TypeError):
            continue


def _revision(path: Path | None) -> tuple[str, bool]:
    """Return the revision of a file's checkout, and whether the tree has changes.

    A file that git does not track has none: it is in an environment, or beside a
    checkout of something else.
    """
    folder = path.parent if path is not None else None
    if folder is None or not any(
        (p / ".git").exists() for p in (folder, *folder.parents)
    ):
        return "", False
    told = _git(folder, "status", "--porcelain=v2", "--branch")
    lines = told.splitlines()
    found = [line.split()[2] for line in lines if line.startswith("# branch.oid ")]
    revision = found[0] if found else ""
    is_tracked = _git(folder, "ls-files", "--error-unmatch", str(path)) != ""
    if not is_tracked or not re.fullmatch(r"[0-9a-f]{40,64}", revision):
        return "", False
    return revision, any(not line.startswith("#") for line in lines)


def _git(folder: Path, *arguments: str) -> str:
    """Return what git writes; empty: there is no git, or it refuses."""
    # No hook of a checkout runs, and its lock is not taken.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603, TID251 -- a fixed program; the folder is that of loaded code
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            env=quiet,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""
