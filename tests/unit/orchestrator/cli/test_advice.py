"""The commands that print the advice on the order of a pipeline's stages."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
MODULE = """
from pydantic import BaseModel
from piecework import Context, Pipeline, Stage

class Order(BaseModel):
    n: int

async def charge(ctx: Context[Order]) -> None: ...
async def refund(ctx: Context[Order]) -> None: ...
async def reserve(ctx: Context[Order]) -> None: ...
async def release(ctx: Context[Order]) -> None: ...

orders = Pipeline("orders", payload=Order, stages=[
    Stage(charge, compensate=refund, reversibility="hard"),
    Stage(reserve, compensate=release),
])
"""
ADVICE = "'charge' is hard to reverse and runs before 'reserve'"


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "orders_of_a_test.py").write_text(MODULE)
    (tmp_path / "orders.jsonl").write_text('{"n": 1}\n')
    sys.path.insert(0, str(tmp_path))
    yield "orders_of_a_test"
    sys.path.remove(str(tmp_path))
    sys.modules.pop("orders_of_a_test", None)


def test_a_dry_run_gives_advice_on_the_order(
    run: Run, orders: str, tmp_path: Path
) -> None:
    source = str(tmp_path / "orders.jsonl")

    done = run("submit", orders, source, "--dry-run", "-o", "json")
    (advice,) = json.loads(done.stdout)["advice"]

    assert advice.startswith(ADVICE)
    assert ADVICE in run("submit", orders, source, "--dry-run").stdout


def test_config_validate_gives_advice_on_pipelines_and_it_is_no_error(
    run: Run, orders: str
) -> None:
    done = run("config", "validate", "--pipelines", orders, "-o", "json")

    assert 0 == done.exit_code
    assert ["orders"] == list(json.loads(done.stdout)["advice"])
    shown = run("config", "validate", "--pipelines", orders).stdout
    assert f"advice on orders: {ADVICE}" in shown
    assert "the settings and the pipelines are valid" in shown


@pytest.mark.parametrize(
    ("contacts", "missing"),
    [
        ("", ["no `owner=`", "no `runbook=`"]),
        ("owner='shop', ", ["no `runbook=`"]),
        ("owner='shop', runbook='https://example.org', ", []),
    ],
    ids=["none", "owner", "both"],
)
def test_a_missing_owner_or_runbook_is_a_warning_and_no_error(
    run: Run, orders: str, tmp_path: Path, contacts: str, missing: list[str]
) -> None:
    module = MODULE.replace("payload=Order, ", f"payload=Order, {contacts}")
    (tmp_path / "orders_of_a_test.py").write_text(module)
    source = str(tmp_path / "orders.jsonl")
    validate = ("config", "validate", "--pipelines", orders)
    submit = ("submit", orders, source, "--dry-run")

    validated, estimated = run(*validate, "-o", "json"), run(*submit, "-o", "json")
    lists = json.loads(validated.stdout)["warnings"]["orders"]
    for warnings in (lists, json.loads(estimated.stdout)["warnings"]):
        assert all(found in text for found, text in zip(missing, warnings, strict=True))
    shown = run(*validate).stdout + run(*submit).stderr
    assert 2 * len(missing) == shown.count("warning: pipeline 'orders' has no")
    assert (0, 0) == (validated.exit_code, estimated.exit_code)


def test_a_wrong_declaration_is_not_valid(run: Run, tmp_path: Path) -> None:
    wrong = MODULE.replace('reversibility="hard"', 'reversibility="impossible"')
    (tmp_path / "wrong_of_a_test.py").write_text(wrong)
    sys.path.insert(0, str(tmp_path))

    done = run("config", "validate", "--pipelines", "wrong_of_a_test")

    sys.path.remove(str(tmp_path))
    assert 2 == done.exit_code
    assert "its reversibility is 'impossible'" in done.stderr
