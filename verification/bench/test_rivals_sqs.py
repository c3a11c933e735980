"""The rivals' scripts on SQS stand alone; they are read here, and not run."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIVALS = ROOT / "bench" / "rivals"
SHARED = {"protocol"}
#: What each may import beside the standard library.
SCRIPTS = {
    "loop": {"boto3", "botocore"},
    "powertools": {"aws_lambda_powertools", "loop"},
    "celery_sqs": {"celery"},
    "taskiq_sqs": {"aiobotocore", "taskiq", "taskiq_aio_sqs", "uvloop"},
    "dramatiq_on_sqs": {"dramatiq", "dramatiq_sqs"},
}
#: Who brings a package that is not asked for by its own name.
BROUGHT_BY = {
    "botocore": "boto3",
    "aiobotocore": "taskiq-aio-sqs",
    "uvloop": "taskiq[uv]",
    "celery": "celery[sqs]",
    "taskiq": "taskiq[uv]",
}

each_script = pytest.mark.parametrize("name", SCRIPTS)


def tree_of(name: str) -> ast.Module:
    """Return a script as Python reads it."""
    return ast.parse((RIVALS / f"{name}.py").read_text("utf-8"), name)


def imported_by(tree: ast.Module) -> set[str]:
    """Return the packages that a script imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert 0 == node.level, "a script has no package around it"
            found.add(str(node.module).partition(".")[0])
    return found


def asked_for() -> set[str]:
    """Return what the environment of the rivals is asked to have."""
    lines = (ROOT / "requirements/bench-sqs.in").read_text("utf-8").splitlines()
    named = (re.match(r"[a-z0-9-]+(\[[a-z]+\])?", line) for line in lines)
    return {each.group() for each in named if each}


@each_script
def test_a_script_imports_its_rival_and_nothing_of_ours(name: str) -> None:
    outside = imported_by(tree_of(name)) - sys.stdlib_module_names

    assert SCRIPTS[name] | SHARED == outside


@each_script
def test_a_script_has_the_four_commands(name: str) -> None:
    tree = tree_of(name)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    (main,) = [node for node in calls if ast.unparse(node.func) == "protocol.main"]

    verbs = [ast.unparse(each).removeprefix("loop.") for each in main.args]
    assert ["setup", "enqueue", "work", "teardown"] == verbs


@each_script
def test_a_script_hides_no_package_that_it_imports(name: str) -> None:
    assert name not in imported_by(tree_of(name))


@each_script
def test_a_script_says_how_it_was_set_up(name: str) -> None:
    said = ast.get_docstring(tree_of(name)) or ""

    assert len(said.splitlines()) > 5


@each_script
def test_what_a_script_imports_is_in_its_environment(name: str) -> None:
    packages = SCRIPTS[name] - set(SCRIPTS)

    options = {BROUGHT_BY.get(each, each.replace("_", "-")) for each in packages}

    assert set() == options - asked_for()


def test_every_package_of_the_environment_is_locked_by_its_hash() -> None:
    locked = (ROOT / "requirements/bench-sqs.txt").read_text("utf-8")
    entries = re.split(r"\n(?=[a-z])", locked)
    pinned = [entry for entry in entries if "==" in entry.splitlines()[0]]

    assert 40 < len(pinned)
    assert [] == [entry for entry in pinned if "--hash=sha256:" not in entry]
