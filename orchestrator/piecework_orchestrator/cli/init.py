"""`init`: write the folder of a new project from a starter.

The starters are plain files: `examples/piecework_examples/starters/`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import distributions, packages_distributions
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from piecework.errors import UsageError
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_local
from piecework_orchestrator.results.files import make_folder, naming_path

#: The name is a folder, a package of Python and the tag of an image.
NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
MAX_NAME = 64
#: What the test of a project imports, besides Piecework.
TEST_PACKAGES = ("pytest", "pytest_asyncio")
#: A file of a starter that Git or a build would obey, to its name in a project.
RENAMED = {"gitignore": ".gitignore"}


def init(
    name: Annotated[
        str, typer.Argument(help="The project's name, and its new folder.")
    ],
    llm: Annotated[
        bool, typer.Option("--llm", help="Start with calls of a language model.")
    ] = False,
    saga: Annotated[
        bool,
        typer.Option("--saga", help="Start with stages, compensation and a pivot."),
    ] = False,
) -> None:
    """Write a new project.

    It has a pipeline with its tests, an input, a Makefile and a Dockerfile, which work
    as they are: `make test`, then `piecework run app rows.jsonl`.
    """

    def run(out: Output) -> None:
        if llm and saga:
            message = "--llm and --saga are two starters."
            raise UsageError(message, next_step="Use one of the two options.")
        starter = "llm" if llm else "saga" if saga else "plain"
        written = write_project(Path(), name, starter)
        out.document(
            {"project": name, "files": written},
            lambda console: console.print(f"wrote {name}: {', '.join(written)}"),
        )
        out.say(f"next: cd {name}")
        if any(find_spec(package) is None for package in TEST_PACKAGES):
            out.say("next: pip install --group dev")
        out.say("next: make test")
        out.say("next: piecework run app rows.jsonl")

    run_local(run, Format.TABLE)


def write_project(parent: Path, name: str, starter: str) -> list[str]:
    """Write the files of a starter into a new folder; return their names.

    Raises:
        UsageError: `cli.project.bad_name`, `cli.project.folder_taken`;
            `cli.usage.invalid`: the folder cannot be written to.
    """
    require_name(name)
    folder = parent / name
    with naming_path(folder):
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise UsageError(
                f"{folder} exists and is not an empty folder; nothing was written.",
                code="cli.project.folder_taken",
                next_step="Choose another name, or move the folder away.",
            )
    contents = dict(read_starter(name, starter))
    make_folder(folder)
    for file, content in contents.items():
        with naming_path(folder / file):
            (folder / file).write_text(content, encoding="utf-8")
    return list(contents)


def require_name(name: str) -> None:
    """Raise if a project cannot have this name."""
    if is_name(name):
        return
    near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    problem, rule = "is not a name for a project", "Use lower-case letters, digits and"
    if is_taken(name):
        problem, rule = "is the name of an installed module", "Use another name, with"
        near = f"{near}-batch"
    raise UsageError(
        f"{name!r} {problem}; nothing was written.",
        code="cli.project.bad_name",
        next_step=f"{rule} hyphens: "
        f"`piecework init {near if is_name(near) else 'my-batch'}`",
    )


def is_name(name: str) -> bool:
    """Return whether a project can have this name."""
    return len(name) <= MAX_NAME and bool(NAME.fullmatch(name)) and not is_taken(name)


def is_taken(name: str) -> bool:
    """Return whether Python, or an installed package, has a module of this name."""
    modules = sys.stdlib_module_names | packages_distributions().keys()
    installed = {each.name.lower().replace("_", "-") for each in distributions()}
    return name.replace("-", "_") in modules or name.replace("_", "-") in installed


def read_starter(name: str, starter: str) -> Iterator[tuple[str, str]]:
    """Yield each file of a project with its content."""
    starters = files("piecework_examples") / "starters"
    about = ast.get_docstring(ast.parse((starters / starter / "app.py").read_text()))
    words = {"{{name}}": name, "{{about}}": about or ""}
    for folder in (starters / starter, starters / "common"):
        for file in sorted(folder.iterdir(), key=lambda file: file.name.lower()):
            if not file.is_file():  # a folder of compiled modules
                continue
            content = file.read_text(encoding="utf-8")
            for word, value in words.items():
                content = content.replace(word, value)
            yield RENAMED.get(file.name, file.name), content
