from __future__ import annotations

import dataclasses
import math
import sys
import typing
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasPath,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    computed_field,
)
from pydantic.functional_serializers import PlainSerializer
from pydantic.types import SecretStr

from piecework.answers import misfit
from piecework.dependency import Dependency, Fallback
from piecework.domain import values
from piecework.domain.mismatch import SEARCHED, parts
from piecework.domain.payload import encode_payload
from piecework.domain.result_types import require_kept, result_schema, result_type
from piecework.errors import PermanentError, UsageError
from piecework.pipelines import Pipeline, Stage
from piecework.questions import declare
from piecework.standalone import MemoryIdempotency, idempotent


class Aliased(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = Field(alias="theNumber")
    deep: int = Field(validation_alias=AliasPath("a", "b"), serialization_alias="c")
    parsed: Json[list[int]]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.number * 2


class Swapped(BaseModel):
    one: int = Field(alias="two")
    two: int = Field(alias="one")


@dataclasses.dataclass
class Plain:
    word: str


class Base(BaseModel):
    kept: int


async def aliased(_: Any) -> list[Aliased]: ...  # type: ignore[empty-body]
async def swapped(_: Any) -> Swapped: ...  # type: ignore[empty-body]
async def plain(_: Any) -> Plain: ...  # type: ignore[empty-body]
async def text(_: Any) -> str: ...  # type: ignore[empty-body]
async def texts(_: Any) -> tuple[str, ...]: ...  # type: ignore[empty-body]
async def nothing(_: Any) -> None: ...
async def real(_: Any) -> float: ...  # type: ignore[empty-body]
async def untyped(_): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201


def there_and_back(function: Any, value: Any) -> Any:
    text = values.encode(function, value)
    schema = result_schema(function)
    assert "" == misfit(schema or "{}", text), "an operator may give it as an answer"
    return values.decode(function, text)


def test_a_model_with_aliases_computed_and_json_fields_reads_back() -> None:
    raw = {"theNumber": 1, "a": {"b": 2}, "parsed": "[3]"}
    value = [Aliased.model_validate(raw)]
    assert value == there_and_back(aliased, value)


def test_aliases_that_cross_do_not_swap_the_values() -> None:
    value = Swapped.model_validate({"one": 1, "two": 2})
    assert value == there_and_back(swapped, value)


def test_none_is_null() -> None:
    assert values.encode(nothing, None) == "null"
    assert values.decode(nothing, "null") is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_without_an_annotation_any_json_reads_back(value: Any) -> None:
    assert value == there_and_back(untyped, value)


@pytest.mark.parametrize(
    ("function", "value"), [(text, 1), (plain, "a"), (nothing, 1), (untyped, object())]
)
def test_a_value_of_another_type_is_refused_with_the_functions_name(
    function: Any, value: Any
) -> None:
    with pytest.raises(PermanentError) as caught:
        values.encode(function, value)
    assert caught.value.code == "runtime.value.unserialisable"
    assert function.__name__ in caught.value.message


class Asks:
    def __call__(self, _: Any) -> int: ...  # type: ignore[empty-body]


@pytest.mark.parametrize("function", [partial(texts, 1), Asks(), Asks().__call__])
def test_any_callable_has_a_result(function: Any) -> None:
    value = ("a",) if isinstance(function, partial) else 1
    assert value == there_and_back(function, value)


class Measured(BaseModel):
    model_config = {"ser_json_timedelta": "float"}

    any: Any = None
    mean: float = math.nan
    note: str | None = None


class Worded(Measured):
    model_config = {"ser_json_inf_nan": "strings"}


def measured() -> Measured: ...  # type: ignore[empty-body]
def worded() -> Worded: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (real, math.nan),
        (untyped, [math.nan, {"a": -math.inf}, None, "null"]),
        (measured, Measured(any=[math.inf])),
        (worded, Worded(any=[-math.inf], note="")),
    ],
)
def test_a_number_that_is_not_finite_stays_what_it_is(
    function: Any, value: Any
) -> None:
    assert repr(value) == repr(there_and_back(function, value))


def test_what_is_nested_too_deeply_to_be_read_is_not_written() -> None:
    value: Any = 0
    for _ in range(190):
        value = [value]
    assert value == there_and_back(untyped, value)
    with pytest.raises(PermanentError) as caught:
        values.encode(untyped, [value])
    assert "runtime.value.unserialisable" == caught.value.code


def test_a_large_value_is_searched_no_further_than_the_bound() -> None:
    class Large(list[int]):
        def __iter__(self) -> Iterator[int]:
            yield from range(SEARCHED - 1)
            pytest.fail("a field beyond the bound was read")

    assert len(list(parts(Large()))) == SEARCHED


@pytest.mark.parametrize("stored", ['"a"', "{}", "not json", ""])
def test_a_stored_value_of_another_type_is_unreadable(stored: str) -> None:
    with pytest.raises(PermanentError) as caught:
        values.decode(aliased, stored)
    assert caught.value.code == "runtime.value.unreadable"
    assert "aliased" in caught.value.message


class Clause(BaseModel):
    number: int
    words: list[str] = []


def clauses(_: Any) -> dict[str, list[Clause]]: ...  # type: ignore[empty-body]
def numbers(_: Any) -> list[int]: ...  # type: ignore[empty-body]
async def later() -> int: ...  # type: ignore[empty-body]


def clause(**fields: Any) -> Clause:
    return Clause.model_construct(**{"number": 1, "words": [], **fields})


@pytest.mark.parametrize(
    ("function", "value", "said"),
    [
        (numbers, [1, "2"], "at 1 it has str, the annotation int"),
        (numbers, (1, 2), "as a whole it has tuple, the annotation list"),
        (
            clauses,
            {"b": [clause(), clause(number="7")]},
            "at b.1.number it has str, the annotation int",
        ),
        (
            clauses,
            {"b": [{"number": 1}]},
            f"at b.0 it has dict, the annotation {__name__}.Clause",
        ),
        (
            clauses,
            {"b": [clause(words=[object()])]},
            "at b.0.words.0 it has object, the annotation str",
        ),
        (untyped, {"a": [object()]}, "at a.0 it has object; supported is a JSON value"),
        (untyped, {"a": Asks()}, f"at a it has {__name__}.Asks; supported is"),
        (clauses, {"b": [later()]}, "at b.0 it has a coroutine that was not awaited"),
        (untyped, later(), "untyped returned a coroutine that was not awaited"),
        (untyped, (n for n in [1]), "untyped returned a generator, whose code has not"),
        (numbers, [len], "at 0 it has a function: return the result of its call"),
        (untyped, lambda: 1, "untyped returned a lambda: return the result of its"),
    ],
)
def test_a_refused_value_names_its_path_and_both_types(
    function: Any, value: Any, said: str
) -> None:
    with pytest.raises(PermanentError) as caught:
        values.encode(function, value)
    assert "runtime.value.unserialisable" == caught.value.code
    assert said in caught.value.message


RAW = b"\xff\x00"
INFINITE = Annotated[Decimal, Field(allow_inf_nan=True)]


class Plainly(BaseModel):
    raw: bytes


class Encoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    raw: bytes


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (bytes, RAW, "as a whole it has bytes that are not UTF-8"),
        (list[bytes], [b"a", RAW], "at 1 it has bytes that are not UTF-8"),
        (dict[bytes, int], {RAW: 1}, "it has bytes that are not UTF-8"),
        (Plainly, Plainly(raw=RAW), "at raw it has bytes that are not UTF-8"),
        (Any, [RAW], "at 0 it has bytes that are not UTF-8"),
        (Decimal, Decimal("NaN"), "NaN or infinity, the annotation a finite number"),
        (list[Decimal], [Decimal("-Infinity")], "at 0 it has NaN or infinity"),
    ],
)
def test_bytes_and_decimals_that_json_cannot_hold_are_named(
    hint: Any, value: Any, said: str
) -> None:
    with pytest.raises(PermanentError) as caught:
        values.encode(returning(hint), value)
    assert "runtime.value.unserialisable" == caught.value.code
    assert said in caught.value.message
    assert "does not match" not in caught.value.message


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (bytes, "é".encode()),
        (Base64Bytes, RAW),
        (dict[str, list[Encoded]], {"a": [Encoded(raw=RAW)]}),
        (INFINITE, Decimal("-Infinity")),
        (INFINITE, Decimal("NaN")),
    ],
)
def test_what_the_page_advises_for_them_comes_back(hint: Any, value: Any) -> None:
    function = returning(hint)
    read = values.decode(function, values.encode(function, value))
    assert repr(value) == repr(read)


def test_a_payload_with_bytes_that_are_not_utf_8_is_refused_with_their_place() -> None:
    with pytest.raises(UsageError, match="at raw it has bytes that are not UTF-8"):
        encode_payload(Plainly, Plainly(raw=RAW), "chunk 0")
    assert encode_payload(Encoded, Encoded(raw=RAW), "chunk 0")


class Card(BaseModel):
    type: SecretStr
    cards: list[Card] = []


@dataclasses.dataclass
class Hidden:
    default: Annotated[str, Field(exclude=True)] = ""


def returning(hint: Any) -> Any:
    async def function(_: Any) -> None: ...

    function.__annotations__["return"] = hint
    return function


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (dict[str, list[Card | int]], "Card.type is a secret"),
        (tuple[Hidden, ...], "Hidden.default is excluded"),
    ],
)
def test_a_type_of_which_json_loses_a_part_is_refused(hint: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        values.encode(returning(hint), None)
    assert "pipeline.declaration.invalid" == caught.value.code


@pytest.mark.parametrize(
    "declared",
    [
        lambda: Pipeline("p", payload=Card, stages=[Stage(text)]),
        lambda: Pipeline("p", payload=Base, stages=[Stage(returning(Card))]),
        lambda: Pipeline("p", payload=Base, stages=[Stage(text)], join=returning(Card)),
        lambda: Dependency("bank").call(name="pay")(returning(Card)),
        lambda: Dependency("bank", fallback=[Fallback(None, returning(Card))]),
        lambda: idempotent(MemoryIdempotency(), scope="a")(returning(Card)),
        lambda: declare("question", "?", Card, 3600, (), (), None),
    ],
)
def test_it_is_refused_where_it_is_declared(declared: Any) -> None:
    with pytest.raises(UsageError, match=r"Card\.type is a secret"):
        declared()


@pytest.mark.parametrize(
    "reveal", [SecretStr.get_secret_value, lambda secret: secret.get_secret_value()]
)
def test_a_serializer_of_the_users_own_is_trusted(reveal: Any) -> None:
    shown = Annotated[SecretStr, PlainSerializer(reveal)]
    assert SecretStr("a") == there_and_back(returning(shown), SecretStr("a"))
    plain = PlainSerializer(lambda card: {"type": reveal(card.type)})
    own: Any = type("Own", (Card,), {})  # pydantic puts the serializer on the class
    beside = returning(tuple[Annotated[own, plain], str])
    card = own(type=SecretStr("a")), "**********"
    assert card == there_and_back(beside, card)


class Row(typing.TypedDict):
    number: int


@dataclasses.dataclass
class Holding:
    raw: bytearray


class Unfinished(BaseModel):
    later: NeverDefined  # type: ignore[name-defined]  # noqa: F821


#: Types that pydantic cannot build, and the part that a message names.
UNBUILT = [
    (bytearray, "bytearray"),
    (range, "range"),
    (memoryview, "memoryview"),
    (ValueError, "ValueError"),
    (Asks, "Asks"),
    (typing.Callable[[], int], r"typing.Callable[[], int]"),
    (type[int], "type[int]"),
    (dict[str, list[range]], "range"),
    (tuple[Holding, ...], "bytearray"),
    pytest.param(
        list[Row],
        "Row",
        marks=pytest.mark.skipif(
            sys.version_info >= (3, 12), reason="pydantic builds it"
        ),
    ),
]


@pytest.mark.parametrize(("hint", "part"), UNBUILT)
@pytest.mark.parametrize(
    "declare",
    [
        lambda f: Pipeline("p", payload=Base, stages=[Stage(f)]),
        lambda f: Pipeline("p", payload=Base, stages=[Stage(text)], join=f),
        Dependency("bank").call(name="pay"),
        lambda f: Dependency("bank", fallback=[Fallback(None, f)]),
        idempotent(MemoryIdempotency(), scope="a"),
        result_type,
    ],
)
def test_a_type_that_pydantic_cannot_build_is_refused_where_it_is_declared(
    declare: Any, hint: Any, part: str
) -> None:
    with pytest.raises(UsageError) as caught:
        declare(returning(hint))
    said = f"The type of returning.<locals>.function has no form in JSON: {part}."
    assert said == caught.value.message
    assert "pipeline.declaration.invalid" == caught.value.code
    assert caught.value.next_step


@pytest.mark.parametrize("hint", [typing.NoReturn, typing.Never])
def test_a_function_that_never_returns_is_no_fault(hint: Any) -> None:
    result_type(returning(hint))


def test_a_type_that_is_still_unknown_is_refused_before_the_call_is_sent() -> None:
    function = returning(list[Unfinished])
    require_kept(function)
    with pytest.raises(UsageError, match="Unfinished") as caught:
        result_type(function)
    assert "pipeline.declaration.invalid" == caught.value.code


def test_a_type_of_a_module_that_is_not_loaded_yet_passes() -> None:
    require_kept(returning("values.DefinedLater"))


def test_a_secret_without_a_declared_type_is_not_stored_masked() -> None:
    with pytest.raises(PermanentError, match=r"at 0\.type it has a secret"):
        values.encode(untyped, [Card(type=SecretStr("4111")), "**********"])
    assert ["**********"] == there_and_back(untyped, ["**********"])
