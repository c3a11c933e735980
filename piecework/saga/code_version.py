"""Name the code of a pipeline, so that each piece of work can say which code made it.

    PIECEWORK_CODE_VERSION      what the deployment says; it comes before all others
    sha256:1f0c…                the image of the container, as ECS names it
    git:9a3b…                   the revision of a checkout without changes
    git:9a3b…-dirty-77aa…       the same with changes, and a hash of these
    files:77aa…                 a hash of the files that the pipeline imports

Two names differ if the code differs. Equal code may have two names, in an image and in
a checkout: then say which it is by the variable.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import getsource, unwrap
from pathlib import Path
from types import ModuleType
from typing import Any

from piecework.domain import keys
from piecework.pipelines import Pipeline, variants
from piecework.saga.once import once_for_each
from piecework.settings import Settings

#: Characters of a digest or a revision, and of the hash of a dirty tree's files.
DIGEST, DIRTY_DIGEST = 12, 8
#: Seconds that git may take; a checkout on a slow disk then counts as files.
GIT_S = 5.0
#: Parts of a path that tell that others wrote the code in it.
INSTALLED = {"site-packages", "dist-packages"}
#: The packages of Piecework begin so; they have a version of their own.
OURS = "piecework"
IMAGE = re.compile(r"sha256:[0-9a-f]{64}")


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
    return _found(pipeline)


@once_for_each
def _found(pipeline: Pipeline) -> str:
    """Return what the checkout tells, or a hash of the files."""
    objects = list(_objects(pipeline))
    files = dict(_files(objects))
    sources = {name: path.read_bytes() for name, path in files.items()}
    if not files:  # a notebook: its cells have no file
        sources = dict(_cells(objects))
    if not sources:
        return ""
    path = next(iter(files.values()), None)
    if path is None or not (revision := _revision(path)):
        return f"files:{_digest(sources)[:DIGEST]}"
    if _git(path.parent, "status", "--porcelain") == "":
        return f"git:{revision[:DIGEST]}"
    # A prompt may be in a file that is not Python.
    changes = _git(path.parent, "diff", "--binary", "--no-ext-diff", "HEAD")
    sources[""] = (changes or "").encode()
    return f"git:{revision[:DIGEST]}-dirty-{_digest(sources)[:DIRTY_DIGEST]}"


def _digest(sources: Mapping[str, bytes]) -> str:
    parts = (
        f"{name}\0{len(content)}\0".encode() + content
        for name, content in sorted(sources.items())
    )
    return keys.sha256(b"".join(parts))


def _objects(pipeline: Pipeline) -> Iterator[Any]:
    """Yield the functions of a pipeline and the model of its payload."""
    for stage in pipeline.stages:
        yield from map(unwrap, variants(stage).values())
    if pipeline.join is not None:
        yield unwrap(pipeline.join)
    yield pipeline.payload


# ── the files of a pipeline ───────────────────────────────────────────────────
#
# Submit and worker load different modules beside the pipeline. So the files are those
# that its modules name in their imports, and not those that a process has loaded.


def _files(objects: Iterable[Any]) -> Iterator[tuple[str, Path]]:
    """Yield the files of the pipeline's own code, each by its path in a root.

    The root of a module is the folder from which its package is imported. What it
    imports from there counts, too: a prompt may be in another module. Of installed
    packages only the pipeline's own count.
    """
    own = {getattr(each, "__module__", "") for each in objects}
    for name in sorted(own):
        first, path = name.partition(".")[0], _path(sys.modules.get(name))
        root = _root(sys.modules.get(first))
        if first == OURS or path is None or root is None:
            continue
        is_installed = not INSTALLED.isdisjoint(root.parts)
        packages = (each / "__init__.py" for each in path.parents)
        seen, waiting = set[Path](), [path, *filter(Path.is_file, packages)]
        while waiting:
            path = waiting.pop()
            if path in seen or not path.is_relative_to(root):
                continue
            seen.add(path)
            within = path.relative_to(root)
            top = within.parts[0].removesuffix(".py")
            is_foreign = top != first and (is_installed or top.startswith(OURS))
            if not is_foreign:
                yield str(within), path
                waiting += _imports(path, root)


def _imports(path: Path, root: Path) -> Iterator[Path]:
    """Yield the files under a root that a file names in its imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield from _modules(root, each.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else root
            module = node.module.split(".") if node.module else []
            for each in node.names:
                yield from _modules(base, [*module, each.name])


def _modules(base: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the files of a module and of the packages that it is in."""
    for name in names:
        found = (base / "__init__.py", base / f"{name}.py", base / name / "__init__.py")
        yield from filter(Path.is_file, found)
        base /= name


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


def _revision(path: Path) -> str:
    """Return the revision of the checkout that tracks a file; empty: none does.

    A file that git does not track is in an environment, or beside a checkout of
    something else.
    """
    folder = path.parent
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return ""
    if not _git(folder, "ls-files", "--error-unmatch", "--", str(path)):
        return ""
    found = (_git(folder, "rev-parse", "HEAD") or "").strip()
    return found if re.fullmatch(r"[0-9a-f]{40,64}", found) else ""


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git writes; None: there is no git, or it refuses."""
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
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
