"""Measure the structure of the code; `make house` fails if a figure exceeds its limit.

Each figure comes from the code itself: from tracked files, the import graph, or a call
stack. A real worker runs the stage of that stack in the simulator.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any, Final

import grimp
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework_simulation.driver.actions import Workload
from piecework_simulation.driver.schedule import run_schedule
from tests.docs.test_words import (
    PRODUCT,
    TESTS,
    banned_words,
    texts,
)

ROOT: Final = Path(__file__).parents[1]
#: The figures `files` and `lines` count what an installation runs.
INSTALLED: Final = ("piecework", "workers", "orchestrator")
PACKAGES: Final = (
    "piecework",
    "piecework_worker",
    "piecework_orchestrator",
    "piecework_simulation",
)
#: Pages that a user of the first week reads beside those under Start.
SOON: Final = (
    *("docs/effects.md", "docs/standalone.md", "docs/budgets.md"),
    *("docs/stuck.md", "docs/dead-letters.md"),
)
DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Tokens without code on their line.
NOT_CODE: Final = {
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
#: The worker starts the task of a received message here: the first frame to count.
FIRST_FRAME: Final = "piecework_worker.worker"
#: The counts of files, lines of code and words are printed, never limited: a limit on
#: them taxes every change, and says nothing about its worth.
LIMITS: Final[Mapping[str, int]] = {
    "arrows_up": 0,
    "circles": 0,
    "frames_to_stage": 10,
    "flat_modules": 12,
    "banned_words": 0,
    "readme_lines": 160,
}


def main() -> int:
    """Print the figures; return 1 if one exceeds its limit."""
    figures = measure()
    line = " ".join(f"{name}={value}" for name, value in figures.items())
    sys.stdout.write(f"{line}\n")
    exceeded = [name for name, limit in LIMITS.items() if figures[name] > limit]
    sys.stderr.writelines(f"{line}\n" for name in exceeded for line in details(name))
    return 1 if exceeded else 0


def details(name: str) -> Iterator[str]:
    """Yield what exceeds a limit."""
    yield f"{name}: the limit is {LIMITS[name]}"
    if name == "arrows_up":
        yield from (f"  {arrow}" for arrow in arrows_up())
    if name == "circles":
        yield from (f"  {' <- '.join(circle)}" for circle in import_circles())
    if name == "frames_to_stage":
        yield from (f"  {name_of(frame)}" for frame in reversed(stage_frames()))
    if name == "banned_words":
        yield from (f"  {place}" for place in banned_words(texts(PRODUCT)))


def measure() -> Mapping[str, int]:
    """Return each figure by its name."""
    installed = tracked_files(INSTALLED)
    modules = [path for path in installed if path.parent == ROOT / "piecework"]
    return {
        "files": len(installed),
        "lines": sum(map(code_lines, installed)),
        "test_lines": sum(map(code_lines, tracked_files(TESTS))),
        "arrows_up": len(arrows_up()),
        "circles": len(import_circles()),
        "frames_to_stage": len(stage_frames()),
        "flat_modules": len([path for path in modules if path.stem != "__init__"]),
        "banned_words": len(banned_words(texts(PRODUCT))),
        "readme_lines": len((ROOT / "README.md").read_text("utf-8").splitlines()),
        "words": sum(map(words_of, written_pages())),
        "longest_first_page": max(map(words_of, first_pages())),
    }


def words_of(page: Path) -> int:
    """Count the words of a page as `wc -w` does, its code included."""
    return len(page.read_text("utf-8").split())


def written_pages() -> list[Path]:
    """Return the README and the pages of docs/, but no decision and no printed page."""
    printed = {ROOT / name for name in generator("generate").PAGES}
    pages = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - printed
    return [page for page in pages if page.parent.name != "decisions"]


def first_pages() -> list[Path]:
    """Return the pages that a user of the first week reads."""
    start = generator("navigation").sections()["Start"]
    return [*(ROOT / each.place for each in start), *(ROOT / page for page in SOON)]


@cache
def generator(name: str) -> Any:
    """Import a program of docs/reference/, which is in no package."""
    sys.path.append(str(ROOT / "docs/reference"))
    return import_module(name)


def tracked_files(folders: Iterable[str]) -> list[Path]:
    """Return the Python files of folders that git tracks and that still exist."""
    command = ["git", "ls-files", *(f"{folder}/*.py" for folder in folders)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in done.stdout.split() if (path := ROOT / name).exists()]


def code_lines(path: Path) -> int:
    """Count the lines of code of a file: not blank, no comment, no docstring."""
    source = path.read_bytes()
    tokens = tokenize.tokenize(BytesIO(source).readline)
    lines = {
        number
        for token in tokens
        if token.type not in NOT_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - set(docstring_lines(ast.parse(source))))


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of the docstrings of a module."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            yield from range(docstring.lineno, (docstring.end_lineno or 0) + 1)


# Imports from the library up into the processes that stand on it.


def arrows_up() -> list[str]:
    """Return each import of the library from a package above it.

    `piecework.client` forwards what programs import; it is the one exception.
    """
    return [
        f"{importer} -> {imported}"
        for importer, all_imported in sorted(imports().items())
        if importer.partition(".")[0] == "piecework" and importer != "piecework.client"
        for imported in sorted(all_imported)
        if imported.partition(".")[0] != "piecework"
    ]


@cache
def imports() -> Mapping[str, set[str]]:
    """Return what each module imports, types included: a reader follows them, too."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False)
    return {
        name: set(graph.find_modules_directly_imported_by(name))
        for name in graph.modules
    }


# Import circles, between modules and between packages.


def import_circles() -> list[list[str]]:
    """Return each import circle as the modules, or the packages, along it."""
    modules = imports()
    return [*circles_of(modules), *circles_of(between_packages(modules))]


def between_packages(modules: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return which package imports which; imports of a root are not counted."""
    packages: dict[str, set[str]] = {}
    for importer, imported in modules.items():
        if "." in importer:
            inside = {package_of(name) for name in imported if "." in name}
            packages.setdefault(package_of(importer), set()).update(inside)
    return {package: imported - {package} for package, imported in packages.items()}


def package_of(module: str) -> str:
    """Return the package of a module: the first two parts of its name."""
    return ".".join(module.split(".")[:2])


def circles_of(edges: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield a circle, remove one import of it, and go on until no circle is left."""
    left = {importer: set(imported) for importer, imported in edges.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle = error.args[1]  # each entry is imported by the next one
            yield circle
            left[circle[1]].remove(circle[0])
        else:
            return


# Frames between a received message and the stage function.


class Probe(BaseModel):
    """The payload of the measured chunk; it carries nothing."""


def stage_frames() -> list[FrameType]:
    """Return the frames of the library and the worker above a stage, innermost first.

    A job of one chunk runs in the simulator, through the real worker.

    Raises:
        RuntimeError: No stage ran, or the frames do not begin at the worker's task.
    """
    stacks: list[list[FrameType]] = []

    async def keep_stack(ctx: Context[Probe]) -> None:
        stacks.append([frame for frame in callers_of(sys._getframe()) if ours(frame)])

    pipeline = Pipeline(name="probe", payload=Probe, stages=[Stage(keep_stack)])
    for seed in range(100):  # a cancel may precede the stage
        run_schedule(seed, [Workload(pipeline, lambda _: [Probe()])])
        if stacks:
            break
    deepest = max(stacks, key=len, default=[])
    if not deepest or deepest[-1].f_globals["__name__"] != FIRST_FRAME:
        raise RuntimeError(
            f"The frames above a stage do not begin in {FIRST_FRAME}: "
            "measure the task that starts the stage, too."
        )
    return deepest


def callers_of(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames that called a frame, innermost first."""
    caller = frame.f_back
    while caller is not None:
        yield caller
        caller = caller.f_back


def ours(frame: FrameType) -> bool:
    """Return whether a frame belongs to the library or to the worker."""
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return package in {"piecework", "piecework_worker"}


def name_of(frame: FrameType) -> str:
    """Return the module and the function of a frame."""
    return f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"


if __name__ == "__main__":
    raise SystemExit(main())
