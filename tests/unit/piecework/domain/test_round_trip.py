"""What comes back is what was stored, or it is refused where it is made.

One table for the value of a stage, the answer of a call, and a payload.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    RootModel,
    StringConstraints,
    computed_field,
    create_model,
    field_validator,
)
from typing_extensions import TypedDict

from piecework.context import Context
from piecework.dependency import Dependency
from piecework.domain import values
from piecework.domain.identity import named_call
from piecework.domain.outcome import DeadLettered
from piecework.errors import PermanentError, UsageError
from piecework.pipelines import Pipeline, Stage
from piecework.questions import declare
from piecework.testing import run_in_memory

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")


class Base(BaseModel):
    a: int


class More(Base):
    b: int = 3


class ById(Base):
    b: int = 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Base) and self.a == other.a

    __hash__ = None  # type: ignore[assignment]


class Percent(BaseModel):
    share: float

    @field_validator("share")
    @classmethod
    def of_percent(cls, given: float) -> float:
        return given / 100


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    lives: int = 1


class Named(BaseModel):
    number: int = Field(alias="theNumber", default=1)
    other: int = Field(validation_alias=AliasChoices("x", "y"), default=2)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.number * 2

    @cached_property
    def text(self) -> str:
        return "text"


class Private(BaseModel):
    a: int = 1
    _seen: int = PrivateAttr(default=0)


class Box(BaseModel, Generic[T]):
    item: T


class Row(TypedDict, total=False):
    a: int


@dataclasses.dataclass
class Point:
    x: int
    y: float = dataclasses.field(default=0.5, compare=False)


@dataclasses.dataclass
class Deep(Point):
    z: int = 1


@dataclasses.dataclass
class Halved:
    x: float = dataclasses.field(compare=False)

    def __post_init__(self) -> None:
        self.x /= 2


class Word(enum.StrEnum):
    A = "a"


class Level(enum.IntEnum):
    ONE = 1


class Colour(enum.Enum):
    RED = "red"


class Bare:
    def __init__(self, text: str) -> None:
        self.text = text


Spoken = Annotated[
    Any,
    BeforeValidator(lambda given: Bare(given) if isinstance(given, str) else given),
    PlainSerializer(lambda bare: bare.text),
]
Lower = Annotated[str, StringConstraints(to_lower=True)]


def used(found: Any, **changes: Any) -> Any:
    """Return an instance after its validation, as code leaves it."""
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def cached(found: Named) -> Named:
    assert found.text
    return found


MOMENT = dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)

EQUAL = [
    (int, 10**50),
    (int, True),
    (float, 5),
    (float, math.nan),
    (float, -0.0),
    (str, Word.A),
    (Word, Word.A),
    (Level, Level.ONE),
    (Colour, Colour.RED),
    (bytes, b"ab"),
    (Decimal, Decimal("1.50")),
    (dt.datetime, MOMENT),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)),
    (dt.datetime, MOMENT.replace(tzinfo=None)),
    (dt.date, dt.date(2026, 1, 2)),
    (dt.timedelta, dt.timedelta(days=3, microseconds=1)),
    (uuid.UUID, uuid.UUID(int=5)),
    (PurePosixPath, PurePosixPath("a/b")),
    (set[int], {3, 1, 2}),
    (frozenset[Word], frozenset(Word)),
    (tuple[int, str], (1, "a")),
    (tuple[Base, ...], (Base(a=1), Base(a=2))),
    (Sequence[int], [1, 2]),
    (dict[int, str], {2: "a", 1: "b"}),
    (dict[str, int], OrderedDict(a=1)),
    (dict[Word, float], {Word.A: math.inf}),
    (dict[dt.date, int], {dt.date(2026, 1, 2): 1}),
    (Any, {"a": [1, 1.5, None, True, "x", {"y": math.nan}]}),
    (dict, {"a": {"b": [1]}}),
    (Base, Base(a=1)),
    (Free, Free(a=1, other=[1, {"x": None}])),
    (Cat | Dog, Dog()),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Dog(lives=3)),
    (Named, cached(Named(theNumber=7, x=4))),
    (Private, used(Private(), _seen=5)),
    (Box[int], Box[int](item=1)),
    (Box[int], Box(item=1)),
    (RootModel[list[int]], RootModel[list[int]]([1])),
    (Row, {"a": 1}),
    (Point, Point(1, 2.5)),
    (list[Point | None], [Point(1), None]),
    (Spoken, Bare("a")),
    (int | str, "5"),
    (Base | None, None),
]

CHANGED = [
    (Percent, Percent(share=500), "at share it would come back as another float"),
    (list[Percent], [Percent(share=500)], "at 0.share it would come back"),
    (Lower, "ABC", "as a whole it would come back as another str"),
    (Base, More(a=1), "it has {here}.More, which would come back as {here}.Base"),
    (dict[str, list[Base]], {"x": [More(a=1)]}, "at x.0 it has {here}.More"),
    (list[Base], [ById(a=1)], "at 0 it has {here}.ById"),
    (Point, Deep(1), "it has {here}.Deep, which would come back as {here}.Point"),
    (Halved, Halved(8.0), "at x it would come back as another float"),
    (Row, {"a": 1, "b": 2}, "at [key] it would come back with other fields"),
    (Any, {1: "a"}, "at [key] it has int, which would come back as str"),
    (Any, {"x": {None: 1}}, "at x.[key] it has NoneType"),
    (dict, {True: 1}, "at [key] it has bool"),
    (Any, {1: 1, "1": 2}, "at [key]"),
    (Any, [{(1, 2): 3}], "at 0.[key] it has tuple"),
    (Any, [(1, 2)], "at 0 it has tuple, which would come back as list"),
    (Any, {1, 2}, "it has set, which would come back as list"),
    (Any, b"a", "it has bytes, which would come back as str"),
    (Any, Decimal("1.5"), "it has decimal.Decimal, which would come back as str"),
    (Any, MOMENT, "it has datetime.datetime, which would come back as str"),
    (Any, Base(a=1), "it has {here}.Base, which would come back as dict"),
    (Any, [Point(1)], "at 0 it has {here}.Point, which would come back as dict"),
    (list, [Colour.RED], "at 0 it has {here}.Colour, which would come back as str"),
    (Free, Free(other=(1,)), "at other it has tuple"),
    (Sequence[int], (1, 2), "it has tuple, which would come back as list"),
    (dt.date | str, "2026-01-02", "it has str, which would come back as datetime.date"),
    (float, 2**60 + 1, "it has int, which would come back as float"),
]

UNREADABLE = [
    (int, 10**5000, "as a whole it has an integer of more than 4,300 digits"),
    (list[int], [10**5000], "at 0 it has an integer of more than 4,300 digits"),
    (str, "\ud800", "as a whole it has a text with half a character"),
    (Any, {"a": ["\ud800"]}, "at a.0 it has a text with half a character"),
    (Any, {"a": {"\ud800": 1}}, "at a it has a text with half a character"),
    (Decimal, Decimal("NaN"), "it has NaN or infinity, the annotation a finite"),
    (bytes, b"\xff", "as a whole it has bytes that are not"),
    (dict[str, int], {1: 2}, "at 1.[key] it has int, the annotation str"),
]


def returning(hint: Any, value: Any = None) -> Any:
    @named_call("answer")
    async def function(_: Any = None) -> Any:
        return value

    function.__annotations__["return"] = hint
    return function


def ids(cases: list[Any]) -> list[str]:
    return [f"{number}-{type(case[1]).__name__}" for number, case in enumerate(cases)]


@pytest.mark.parametrize(("hint", "value"), EQUAL, ids=ids(EQUAL))
def test_a_value_comes_back_equal(hint: Any, value: Any) -> None:
    function = returning(hint)
    text = values.encode(function, value)
    read = values.decode(function, text)
    same_moment = value is MOMENT and read.timestamp() == MOMENT.timestamp()
    equal = value == read or repr(value) == repr(read) or same_moment
    assert equal or vars(value) == vars(read)
    assert text == values.encode(function, read)


def said(template: str) -> str:
    return template.replace("{here}", __name__)


REFUSED = [*CHANGED, *UNREADABLE]


@pytest.mark.parametrize(("hint", "value", "place"), REFUSED, ids=ids(REFUSED))
async def test_what_would_come_back_as_another_value_is_refused_before_it_counts(
    hint: Any, value: Any, place: str
) -> None:
    """The place is named; the call is paid for once, whatever the retries."""
    made = []
    bank = Dependency("bank")

    @named_call("pay")
    async def pay() -> Any:
        made.append(1)
        return value

    pay.__annotations__["return"] = hint

    async def asks(ctx: Context[Base]) -> None:
        await ctx.call(bank, pay)

    for stage in (asks, returning(hint, value)):
        pipeline = Pipeline("p", payload=Base, stages=[Stage(stage)])
        run = await run_in_memory(pipeline, [Base(a=1)])
        end = run.outcomes[0]
        assert isinstance(end, DeadLettered)
        assert end.failure.code == "runtime.value.unserialisable"
        assert said(place) in end.failure.message
    assert made == [1]


@pytest.mark.parametrize(("hint", "value", "place"), CHANGED, ids=ids(CHANGED))
async def test_a_payload_is_refused_for_the_same_reasons(
    hint: Any, value: Any, place: str
) -> None:
    model = create_model("Payload", value=(hint, ...))
    given = model.model_construct(value=value)
    pipeline = Pipeline("p", payload=model, stages=[Stage(returning(int, 1))])
    inner = said(place).replace("as a whole", "at value").replace("at ", "at value.", 1)
    with pytest.raises(UsageError) as refused:
        await run_in_memory(pipeline, [given])
    assert refused.value.code == "input.payload.invalid"
    assert "payload 0" in refused.value.message
    assert inner.replace("value.value", "value") in refused.value.message


async def test_what_is_no_payload_is_refused_in_memory_as_by_a_submit() -> None:
    pipeline = Pipeline("p", payload=Base, stages=[Stage(returning(int, 1))])
    for given, code in [
        (Cat(), "input.payload.invalid"),
        (used(Base(a=1), a="x"), "input.payload.invalid"),
    ]:
        with pytest.raises(UsageError) as refused:
            await run_in_memory(pipeline, [given])
        assert refused.value.code == code
    large = Pipeline("p", payload=Box[str], stages=[Stage(returning(int, 1))])
    with pytest.raises(UsageError, match=r"input\.payload\.too_large"):
        await run_in_memory(large, [Box[str](item="x" * 262_144)])


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (dict[tuple[int, int], str], "has a tuple as a key"),
        (list[dict[None, str]], "has a none as a key"),
        (Iterable[int], "can be read only once"),
        (BaseModel, "is BaseModel, which has no fields"),
    ],
)
def test_a_type_that_never_comes_back_is_refused_at_the_declaration(
    hint: Any, reason: str
) -> None:
    for declared in (
        lambda: Pipeline("p", payload=Base, stages=[Stage(returning(hint))]),
        lambda: Dependency("bank").call(name="pay")(returning(hint)),
    ):
        with pytest.raises(UsageError, match=reason) as refused:
            declared()
        assert refused.value.code == "pipeline.declaration.invalid"


def test_a_default_of_a_question_that_would_change_is_refused() -> None:
    with pytest.raises(UsageError, match="at share it would come back as another"):
        declare("q", "?", Percent, 3600, (), (), Percent(share=500))


async def test_the_answer_of_a_question_that_would_change_is_refused() -> None:
    async def asks(ctx: Context[Base]) -> float:
        return (await ctx.wait_for("q", ask="?", answer=Percent, timeout=60)).share

    pipeline = Pipeline("p", payload=Base, stages=[Stage(asks)])
    for answer in (Percent(share=500), {"share": 500}):
        with pytest.raises(UsageError, match="at share it would come back as another"):
            await run_in_memory(pipeline, [Base(a=1)], answers={"q": answer})


def test_a_return_type_is_known_though_a_parameter_is_for_the_type_checker() -> None:
    async def stage(ctx: OnlyForMypy) -> Base: ...  # type: ignore[name-defined,empty-body]  # noqa: F821

    assert Base(a=1) == values.decode(stage, values.encode(stage, Base(a=1)))


def test_a_refused_value_is_not_quoted() -> None:
    with pytest.raises(PermanentError) as refused:
        values.encode(returning(Any), {"iban": ("DE89",)})
    assert "DE89" not in str(refused.value)
