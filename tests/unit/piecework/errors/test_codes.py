from __future__ import annotations

import re
from pathlib import Path

import pytest

from piecework.errors.codes import (
    LAYERS,
    REGISTRY,
    UnknownCodeError,
    is_well_formed,
    lookup,
)
from piecework.errors.page import CLASSES, incompatible_codes, page, released

ROOT = Path(__file__).parents[4]
# Written anew with each release: python -m piecework.errors.page released > (this file)
RELEASED = Path(__file__).with_name("released_codes.txt")

# Codes of the recovery specification; they are in other people's programs already.
SPECIFIED = (
    "llm.context.overflow",
    "llm.http.429_rate_limited",
    "llm.policy.refusal",
    "runtime.budget.retry_exhausted",
    "runtime.state.checkpoint_missing",
    "tool.http.429_rate_limited",
    "tool.http.503_unavailable",
)


@pytest.mark.parametrize("code", SPECIFIED)
def test_the_codes_of_the_specification_are_registered(code: str) -> None:
    assert code == lookup(code).code


def test_every_code_has_one_row_in_the_table_of_its_layer() -> None:
    rows = [(layer, row) for layer, rows in LAYERS.items() for row in rows]

    assert len(rows) == len(REGISTRY)
    assert [] == [row.code for layer, row in rows if row.layer != layer]


@pytest.mark.parametrize("code", sorted(REGISTRY))
def test_every_row_is_well_formed_and_says_why_and_what_to_do(code: str) -> None:
    row = REGISTRY[code]

    assert is_well_formed(code)
    assert row.cause.endswith(".")
    # `explain-code` prints one row alone.
    assert not row.cause.startswith("The same")
    assert all(len(told.split()) <= 20 for told in row.cause.split(". "))
    assert row.recovery.rstrip("`").endswith(".")
    assert "{" not in row.cause + row.recovery


@pytest.mark.parametrize("layer", ["llm", "tool"])
def test_of_the_4xx_only_some_are_retried_and_every_5xx_is(layer: str) -> None:
    http = {
        code.rpartition(".")[2]: row.error_class
        for code, row in REGISTRY.items()
        if code.startswith(f"{layer}.http.")
    }
    retried = {detail for detail, each in http.items() if each == "transient"}

    expected = {"408_timeout", "425_too_early", "429_rate_limited"}
    assert expected | ({"409_conflict"} if layer == "llm" else set()) == {
        each for each in retried if each.startswith("4")
    }
    assert {each for each in http if each.startswith("5")} == {
        each for each in retried if each.startswith("5")
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("llm.http.429_rate_limited", True),
        ("acme.billing.card_declined", True),
        ("job.not_found", False),
        ("a.b.c.d", False),
        ("LLM.http.429", False),
        ("llm.http.", False),
        ("llm.http.a\n", False),
        ("", False),
    ],
)
def test_a_code_has_three_parts_in_lower_case(code: str, *, expected: bool) -> None:
    assert expected == is_well_formed(code)


def test_an_unknown_code_is_refused_and_similar_codes_are_named() -> None:
    with pytest.raises(UnknownCodeError, match=r"job\.record\.not_found"):
        lookup("job.recrod.not_found")


def test_every_code_that_our_packages_raise_has_its_row() -> None:
    raised = {
        code: path.relative_to(ROOT).as_posix()
        for package in ("piecework", "workers", "orchestrator")
        for path in (ROOT / package).rglob("*.py")
        for code in re.findall(
            r'\bcode ?= ?"([^"]*)"', path.read_text(encoding="utf-8")
        )
    }

    ours = {code: path for code, path in raised.items() if code[:5] != "acme."}

    assert {} == {code: path for code, path in ours.items() if code not in REGISTRY}


def test_a_released_code_keeps_its_name_and_its_class() -> None:
    listed = RELEASED.read_text(encoding="utf-8")

    assert [] == incompatible_codes(listed)
    assert len(listed.splitlines()) >= 143


def test_a_renamed_and_a_reclassed_code_are_noticed_and_a_new_one_may_come() -> None:
    classes = {**CLASSES, "llm.http.429_rate_limited": "permanent", "new.new.new": "x"}
    del classes["job.record.not_found"]

    assert [
        "job.record.not_found: permanent -> gone",
        "llm.http.429_rate_limited: transient -> permanent",
    ] == incompatible_codes(released(), classes)


def test_the_page_in_docs_is_the_one_that_the_registry_prints() -> None:
    written = (ROOT / "docs" / "error-codes.md").read_text(encoding="utf-8")

    assert page() == written, (
        "run: python -m piecework.errors.page > docs/error-codes.md"
    )
