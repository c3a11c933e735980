"""The playbook as the analysts use it: read once, checked when it is read."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BeforeValidator, Field

from piecework_examples.contract_review.findings import Record, Severity

HERE: Final = Path(__file__).parent


class Category(Record):
    """What a clause can be about: in words, in phrases and in whole sentences."""

    id: str
    title: str
    question: str
    lexicon: dict[int, tuple[str, ...]]
    prototypes: tuple[str, ...]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(
        pattern.replace("<party>", _file("specialists")["party"]), re.IGNORECASE
    )


Pattern = Annotated[re.Pattern[str], BeforeValidator(_compiled)]


class Rule(Record):
    """A pattern of words that is a risk, and the wording to request instead."""

    id: str
    severity: Severity = Severity.MEDIUM
    title: str
    recommendation: str
    any: tuple[Pattern, ...]
    with_: tuple[Pattern, ...] = Field(default=(), alias="with")
    without: tuple[Pattern, ...] = ()
    clause_with: tuple[Pattern, ...] = ()
    clause_without: tuple[Pattern, ...] = ()


class Specialist(Record):
    """An analyst with one question and a few rules."""

    id: str
    title: str
    question: str
    rules: tuple[Rule, ...]


@functools.cache
def categories() -> dict[str, Category]:
    """Return the twelve categories by id."""
    read = (Category.model_validate(row) for row in _file("playbook")["categories"])
    return {category.id: category for category in read}


@functools.cache
def specialists() -> dict[str, Specialist]:
    """Return the eleven specialists by id."""
    rows = _file("specialists")["specialists"]
    return {row["id"]: Specialist.model_validate(row) for row in rows}


@functools.cache
def _file(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((HERE / f"{name}.yaml").read_text("utf-8")))
