"""The rivals' scripts stand alone; they are read here, and not run."""

from __future__ import annotations

import ast
import re
import sys

import pytest

from tests.apart import ROOT

RIVALS = ROOT / "bench" / "rivals"
#: What each imports beside the standard library, and the lock that brings it.
SCRIPTS = {
    "loop": ({"boto3", "botocore"}, "bench-sqs"),
    "powertools": ({"aws_lambda_powertools", "loop"}, "bench-sqs"),
    "celery_sqs": ({"celery"}, "bench-sqs"),
    "taskiq_sqs": ({"aiobotocore", "taskiq", "taskiq_aio_sqs", "uvloop"}, "bench-sqs"),
    "dramatiq_on_sqs": ({"dramatiq", "dramatiq_sqs"}, "bench-sqs"),
    "dbos_pg": ({"dbos", "psycopg", "sqlalchemy"}, "bench-postgres"),
    "procrastinate_pg": ({"procrastinate", "psycopg"}, "bench-postgres"),
    "saq_redis": ({"saq"}, "bench-postgres"),
    "temporal_dev": ({"temporalio"}, "bench-temporal"),
}
VERBS = ["setup", "enqueue", "work", "teardown"]

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


def locked(name: str) -> str:
    """Return what an environment is locked to."""
    return (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")


@each_script
def test_a_script_imports_its_rival_from_its_environment_and_nothing_of_ours(
    name: str,
) -> None:
    packages, lock = SCRIPTS[name]
    outside = imported_by(tree_of(name)) - sys.stdlib_module_names
    wanted = {each.replace("_", "-") for each in packages - set(SCRIPTS)}

    assert packages | {"protocol"} == outside
    assert wanted == {each for each in wanted if f"\n{each}==" in f"\n{locked(lock)}"}


@each_script
def test_a_script_has_the_four_commands_and_says_how_it_was_set_up(name: str) -> None:
    tree = tree_of(name)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (main,) = [node for node in calls if ast.unparse(node.func) == "protocol.main"]

    assert VERBS == [ast.unparse(each).removeprefix("loop.") for each in main.args]
    assert 5 < len((ast.get_docstring(tree) or "").splitlines())


@each_script
def test_no_file_beside_a_script_hides_a_package_that_it_imports(name: str) -> None:
    beside = {each.stem for each in RIVALS.glob("*.py")}

    assert beside & imported_by(tree_of(name)) <= {"protocol", "loop"} - {name}


@pytest.mark.parametrize("lock", sorted({lock for _, lock in SCRIPTS.values()}))
def test_every_package_of_an_environment_is_locked_by_its_hash(lock: str) -> None:
    entries = re.split(r"\n(?=[a-z])", locked(lock))
    pinned = [entry for entry in entries if "==" in entry.splitlines()[0]]

    assert 5 < len(pinned)
    assert [] == [entry for entry in pinned if "--hash=sha256:" not in entry]
