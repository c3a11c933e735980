from __future__ import annotations

import copy
import datetime as dt
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import combinations
from pathlib import PurePosixPath
from typing import Any

import pytest
from pydantic import BaseModel, Field, PrivateAttr, SecretStr

from piecework.domain.arguments import arguments_text
from piecework.domain.payload import write_payload
from piecework.errors import UsageError
from verification import keys


class Cat(BaseModel):
    name: str = ""
    hidden: str = Field("", exclude=True)
    _owner: Any = PrivateAttr("")


class Dog(BaseModel):
    name: str = ""
    hidden: str = Field("", exclude=True)


@dataclass
class Tagged:
    tags: set[str] = field(default_factory=set)

    @cached_property
    def count(self) -> int:
        return len(self.tags)


def owned(owner: Any) -> Cat:
    cat = Cat(name="1")
    cat._owner = owner
    return cat


#: Values that JSON writes as one, or that a key once took for one.
ALIKE: tuple[Any, ...] = (
    *("1", 1, 1.0, True, b"1", Decimal(1), Decimal("1.0"), PurePosixPath("1")),
    *(SecretStr("1"), SecretStr("2"), SecretStr("**********"), "**********"),
    *({1: "a"}, {"1": "a"}, {"1": "A"}, {Decimal(1): "a"}, [("1", "a")]),
    *(dt.date(2026, 1, 31), "2026-01-31", dt.datetime(2026, 1, 31)),  # noqa: DTZ001
    *(dt.datetime(2026, 1, 31, tzinfo=dt.UTC), dt.datetime(2026, 1, 31, fold=1)),  # noqa: DTZ001
    *([1, 2], (1, 2), {1, 2}, frozenset({1, 2}), [[1], 2]),
    *(Cat(name="1"), Dog(name="1"), {"name": "1"}, {"name": "1", "hidden": ""}),
    *(Cat(name="1", hidden=""), Cat(name="1", hidden="2"), owned("me"), owned("you")),
    *(float("nan"), float("inf"), float("-inf"), None, "NaN", "null"),
    *("\ud83d\ude00", "\U0001f600", "\x00", "\\u0000", ""),
    *(Tagged({"a"}), Tagged({"a", "b"})),
)


def test_no_two_of_these_arguments_have_the_same_text() -> None:
    texts = [(value, arguments_text([value], {})) for value in ALIKE]
    assert [] == [
        (one, other)
        for (one, first), (other, second) in combinations(texts, 2)
        if first == second
    ]


@pytest.mark.parametrize("value", ALIKE, ids=lambda value: type(value).__name__)
def test_a_copy_has_the_same_text(value: Any) -> None:
    copied = copy.deepcopy(value)
    if isinstance(value, Tagged):
        assert copied.count  # what is computed from the fields does not count
    assert arguments_text([value], {}) == arguments_text([copied], {})


def test_the_text_of_arguments_is_the_same_in_every_release() -> None:
    args: list[Any] = [("e\u0301", 1, 1.5, None, True), {"b": {3, 1}, "a": b"1"}]
    module = Cat.__module__
    text = '[!tuple(["\u00e9",1,1.5,null,true]),{"a":!bytes("31"),"b":!set([1,3])}]'
    cat = f'!("{module}:Cat",{{"name":"x"}},{{"_owner":""}},[])'
    assert f'{text}{{"cat":{cat}}}' == arguments_text(args, {"cat": Cat(name="x")})


class Order(BaseModel):
    n: int = 0
    tags: list[str] = []
    made: dt.datetime = Field(default_factory=lambda: dt.datetime.now(dt.UTC))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (Order(n=1), Order(n=1), False),  # each has a time of its own
        (keys.Cat(name=1), keys.NEWER[keys.Cat](name=1), True),
        (keys.Cat(name=1), keys.NEWER[keys.Cat](name=1, note=None), False),
        (keys.Cat(name=1), keys.NEWER[keys.Cat](name=1, added=["a"]), False),
        ([keys.Cat()], [keys.NEWER[keys.Cat]()], True),
        (keys.Cat(), keys.NEWER[keys.Dog](), False),
        (keys.Cat(), keys.Cat(name=None), False),
    ],
)
def test_a_field_that_was_never_set_counts_only_if_it_has_not_its_default(
    one: Any, other: Any, *, equal: bool
) -> None:
    assert equal is (arguments_text([one], {}) == arguments_text([other], {}))


def test_a_default_that_was_changed_in_place_counts() -> None:
    """Pydantic does not see the change: the field stays unset."""
    changed = keys.NEWER[keys.Cat]()
    changed.added.append("x")  # type: ignore[attr-defined]

    assert "added" not in changed.model_fields_set
    assert arguments_text([changed], {}) != arguments_text([keys.Cat()], {})


def test_what_a_child_reads_has_the_same_text() -> None:
    given = keys.NEWER[keys.Cat](name="1")
    text = write_payload(given, by_alias=False, exclude_unset=True)

    read = type(given).model_validate_json(text, by_alias=False, by_name=True)

    assert arguments_text([given], {}) == arguments_text([read], {})


def test_a_keyword_is_not_a_positional_argument() -> None:
    assert arguments_text([{"a": 1}], {}) != arguments_text([], {"a": 1})


@pytest.mark.parametrize("mark", ["\x00\u0301", "\n\u0301", "\\\u0301", '"\u0301'])
def test_a_mark_after_any_character_can_be_an_argument(mark: str) -> None:
    assert arguments_text([mark], {}) != arguments_text([mark[1:]], {})


def test_texts_that_differ_in_their_unicode_form_only_are_the_same() -> None:
    assert arguments_text(["\u00e9"], {}) == arguments_text(["e\u0301"], {})


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (lambda: (n for n in range(3)), "list"),
        (lambda: map(str, [1]), "list"),
        (lambda: io.BytesIO(b"1"), "content"),
        (lambda: print, "name"),
        (lambda: owned(threading.Lock()), "dataclass"),
        (lambda: {"clients": [object()]}, "dataclass"),
    ],
)
def test_an_argument_without_a_safe_text_is_refused(
    make: Callable[[], Any], instead: str
) -> None:
    with pytest.raises(UsageError) as caught:
        arguments_text([make()], {})
    assert "pipeline.argument.indistinct" == caught.value.code
    assert instead in caught.value.next_step


def test_a_value_within_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(UsageError) as caught:
        arguments_text([ring], {})
    assert "pipeline.argument.indistinct" == caught.value.code


def test_a_set_has_one_order_in_every_process() -> None:
    code = (
        "from piecework.domain.arguments import arguments_text as text\n"
        "print(text([{'a', 'b', 'c'}, {'x': {'d', 'e', 'f'}}], {}))"
    )
    run = [sys.executable, "-c", code]
    said = {
        subprocess.check_output(run, env={"PYTHONHASHSEED": seed}) for seed in "123"
    }
    assert 1 == len(said)


def test_drawn_calls_that_differ_have_other_keys_or_are_refused() -> None:
    tally = keys.run(2_000, seed=7)
    assert (0, 0) == (tally.collisions, tally.strayed), tally.example
    assert tally.refused < tally.pairs / 2
