"""Commands: a task starts what the image has, with words that it understands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import typer
from typer.testing import CliRunner

from piecework_orchestrator.cli.app import app as piecework
from piecework_worker.__main__ import app as worker
from tests.infra.check.rules.containers import containers
from tests.infra.check.rules.rule import rule
from tests.infra.check.templates import Templates

PROGRAMS: dict[str, typer.Typer] = {"piecework": piecework, "piecework-worker": worker}


@rule
def a_task_says_what_its_program_understands(templates: Templates) -> Iterator[str]:
    for _, name, container in containers(templates):
        words = (*container["EntryPoint"], *container["Command"])
        if not understood(words):
            yield f"{name}: {' '.join(words)}"


@rule
def a_worker_is_given_every_pipeline(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks("service"):
        (container,) = stack.properties("WorkerTask")["ContainerDefinitions"]
        words = container["Command"]
        given = [word for flag, word in pairwise(words) if flag == "--pipelines"]
        if given != stack.parameters["Pipelines"]:
            yield f"{given}, not {stack.parameters['Pipelines']}"


@cache
def understood(words: tuple[str, ...]) -> bool:
    """Return whether a program has a command with these options; it does not run."""
    program, *rest = words
    if program not in PROGRAMS:
        return False
    return CliRunner().invoke(PROGRAMS[program], [*rest, "--help"]).exit_code == 0
