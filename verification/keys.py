"""Draw pairs of calls that differ a little: their keys must differ, or be refused.

`make keys` prints `pairs>=100000 collisions=0 refused=…`, and fails on a collision, and
if a copy of a call has another key. The comparison of two calls is written here a
second time, without the code that makes the keys.
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import sys
import unicodedata
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from random import Random
from typing import Any, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field, SecretStr

from piecework import Dependency, named_call
from piecework.calls.call import CallScope, call_key
from piecework.domain.arguments import digest_of
from piecework.errors import UsageError

SCOPE = CallScope("acme", "job", 0, "pay", "shop")
SHOP = Dependency("shop")
MAX_DEPTH = 3
#: Texts that look like other values, and texts that are hard to write.
TEXTS = (
    *("", "1", "1.0", "null", "true", "NaN", "2026-01-31", "a", '"', "\\", "\\u0301"),
    *("\x00\u0301", "\u00e9", "e\u0301", '!Decimal("1")', "[1]", '{"a":1}', "\ud83d"),
    *("\ude00", "\ud83d\ude00", "\U0001f600", "\u2028", "]", "},{", "a,b"),
)


class Cat(BaseModel):
    """A model."""

    name: Any = None
    card: SecretStr = SecretStr("")
    hidden: Any = Field(None, exclude=True)


class Dog(BaseModel):
    """A model with the same fields."""

    name: Any = None
    card: SecretStr = SecretStr("")
    hidden: Any = Field(None, exclude=True)


#: A type of a field by another name, as a newer version may write it.
Anything: TypeAlias = Any


def next_version(model: type[BaseModel]) -> type[BaseModel]:
    """Return a model as its next version declares it."""

    class Next(model):  # type: ignore[misc, valid-type]
        """Another docstring."""

        name: Anything = None
        added: list[str] = Field(default_factory=list)
        note: str | None = None

    Next.__module__, Next.__qualname__ = model.__module__, model.__qualname__
    return Next


NEWER = {model: next_version(model) for model in (Cat, Dog)}


@dataclass
class Point:
    """A dataclass."""

    x: Any
    y: Any = None


class Colour(Enum):
    """An enum with the values of another."""

    RED = "1"
    BLUE = "2"


class Size(Enum):
    """An enum with the values of another."""

    RED = "1"
    BLUE = "2"


class Client:
    """A client with a method for each account."""

    def __init__(self, account: str) -> None:
        """Keep the account."""
        self.account = account

    async def pay(self, *_: Any, idempotency_key: str) -> str:
        """Pay from the account."""
        return self.account + idempotency_key

    @staticmethod
    async def order(*_: Any, idempotency_key: str) -> str:
        """Order without an account."""
        return idempotency_key


async def pay(*_: Any, idempotency_key: str) -> str:
    """Pay."""
    return idempotency_key


def in_function(account: str) -> Callable[..., Any]:
    """Return a function that knows more than its name says."""

    async def pay(*_: Any, idempotency_key: str) -> str:
        return account + idempotency_key

    return pay


def moved(function: Callable[..., Any], name: str, version: str = "") -> Any:
    """Return a function under its own name, as it is after a move to a module."""

    async def elsewhere(*_: Any, idempotency_key: str) -> str:
        """Pay, by another docstring."""
        return idempotency_key

    elsewhere.__module__ = f"{function.__module__}.moved"
    return named_call(name, version=version)(elsewhere)


EU, US = (named_call(name)(Client(name).pay) for name in ("eu", "us"))
US_2 = named_call("us", version="2")(in_function("us"))
#: Each function with a name of its own, and what it is in another module.
MOVED = {EU: moved(EU, "eu"), US: moved(US, "us"), US_2: moved(US_2, "us", "2")}
FUNCTIONS = (
    *(pay, Client.order, Client("eu").pay, Client("us").pay),
    *(in_function("eu"), in_function("us"), lambda *_, **__: None),
    *MOVED,
)


def draw_leaf(rng: Random) -> Any:
    """Return a value without others in it; many of them look alike."""
    n = rng.choice((0, 1, 2, -1, 2**70))
    day = dt.date(2026, 1, rng.choice((1, 31)))
    zone = rng.choice((None, dt.UTC, ZoneInfo("UTC"), ZoneInfo("Europe/Paris")))
    text = rng.choice(TEXTS)
    choices: tuple[Callable[[], Any], ...] = (
        lambda: text,
        lambda: text,
        lambda: text.encode(errors="replace"),
        lambda: bytearray(text.encode(errors="replace")),
        lambda: SecretStr(text),
        lambda: PurePosixPath(text.replace("\x00", "0")),
        lambda: n,
        lambda: float(n),
        lambda: str(n),
        lambda: Decimal(n),
        lambda: Decimal(f"{n}.0"),
        lambda: bool(n),
        lambda: rng.choice((None, 0.0, -0.0, float("inf"), float("-inf"))),
        lambda: day,
        day.isoformat,
        lambda: dt.datetime(2026, 10, 25, 2, 30, tzinfo=zone, fold=rng.randrange(2)),
        lambda: dt.timedelta(seconds=n % 100),
        lambda: UUID(int=n % 3),
        lambda: str(UUID(int=n % 3)),
        lambda: rng.choice((*Colour, *Size)),
        lambda: rng.choice((object(), iter([n]), pay)),
    )
    return rng.choice(choices)()


def draw(rng: Random, depth: int = 0) -> Any:  # noqa: PLR0911 -- a return a type
    """Return a value of any supported type, or now and then of another."""
    if depth >= MAX_DEPTH or rng.random() < 0.4:
        return draw_leaf(rng)
    inner = [draw(rng, depth + 1) for _ in range(rng.randrange(3))]
    one = draw(rng, depth + 1)
    keys = [draw_leaf(rng) for _ in inner]
    pairs = [
        (key, value) for key, value in zip(keys, inner, strict=True) if hashed(key)
    ]
    match rng.randrange(11):
        case 0:
            return inner
        case 1:
            return tuple(inner)
        case 2:
            return {*filter(hashed, keys)}
        case 3:
            return frozenset(filter(hashed, keys))
        case 4 | 5:
            return dict(pairs)
        case 6:
            return OrderedDict(pairs)
        case 7:
            return deque(inner, maxlen=rng.choice((None, 5)))
        case 8:
            return Point(one, *inner[:1])
        case _:
            model = rng.choice((Cat, Dog))
            chosen = rng.sample(("name", "hidden"), rng.randrange(3))
            return model.model_construct({*chosen}, **dict.fromkeys(chosen, one))


def hashed(value: Any) -> bool:
    """Return whether a value may be a key."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def change(rng: Random, value: Any) -> Any:  # noqa: PLR0911 -- a return a type
    """Return the value with one thing changed, at any depth."""
    if rng.random() < 0.25:
        return draw(rng, MAX_DEPTH)
    match value:
        case list() | tuple() | deque() if value:
            items, place = [*value], rng.randrange(len(value))
            items[place] = change(rng, items[place])
            kind = rng.choice((list, tuple, type(value)))
            return kind(items)
        case dict() if value:
            place, pairs = rng.randrange(len(value)), [*value.items()]
            key, member = pairs[place]
            pairs[place] = rng.choice(((str(key), member), (key, change(rng, member))))
            return rng.choice((dict, OrderedDict, type(value)))(pairs)
        case set() | frozenset():
            return rng.choice((set, frozenset, list, tuple))(value)
        case BaseModel():
            held = {**vars(value)}
            name = rng.choice((*held, "name", "hidden"))
            held[name] = change(rng, held.get(name))
            model = rng.choice((Cat, Dog, type(value)))
            chosen = rng.choice((value.model_fields_set, {*held}))
            return rng.choice((model.model_construct({*chosen}, **held), held))
        case Point():
            return rng.choice((Point(value.x, change(rng, value.y)), vars(value)))
        case SecretStr():
            return SecretStr(value.get_secret_value() + "0")
    forms = (
        str,
        repr,
        lambda v: [v],
        lambda v: (v,),
        lambda v: {v} if hashed(v) else v,
    )
    return rng.choice(forms)(value)


def same(one: Any, other: Any) -> bool:  # noqa: PLR0911, C901 -- a return a type
    """Return whether a function could not tell two values apart."""
    if type(one) is not type(other):
        return False
    match one:
        case str():
            return unicodedata.normalize("NFC", one) == unicodedata.normalize(
                "NFC", other
            )
        case float() | dt.datetime() | Decimal():
            return repr(one) == repr(other)
        case list() | tuple() | deque():
            equal = len(one) == len(other) and all(map(same, one, other))
            return equal and getattr(one, "maxlen", 0) == getattr(other, "maxlen", 0)
        case OrderedDict():
            return same([*one.items()], [*other.items()])
        case dict():
            return matched([*one.items()], [*other.items()])
        case set() | frozenset():
            return matched([*one], [*other])
        case SecretStr():
            return same(one.get_secret_value(), other.get_secret_value())
        case BaseModel():
            chosen = one.model_fields_set == other.model_fields_set
            return chosen and same(vars(one), vars(other))
        case Point():
            return all(
                same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one)
            )
    return bool(one == other)


def matched(ones: list[Any], others: list[Any]) -> bool:
    """Return whether each value has one that is the same, in any order."""
    for one in ones:
        found = next((i for i, other in enumerate(others) if same(one, other)), None)
        if found is None:
            return False
        del others[found]
    return not others


def shuffled(rng: Random, value: Any) -> Any:
    """Return a copy whose dicts and sets are filled in another order."""
    match value:
        case list() | tuple():
            return type(value)(shuffled(rng, one) for one in value)
        case OrderedDict():
            return copy.deepcopy(value)
        case dict():
            pairs = [(copy.deepcopy(k), shuffled(rng, v)) for k, v in value.items()]
            return dict(rng.sample(pairs, len(pairs)))
        case set() | frozenset():
            return type(value)(rng.sample([*value], len(value)))
    return copy.deepcopy(value)


def newer(value: Any) -> Any:
    """Return a value as a newer version of the code makes it.

    Its models have one more field with a default, and another docstring.
    """
    match value:
        case Cat() | Dog():
            given = {name: getattr(value, name) for name in value.model_fields_set}
            return NEWER[type(value)].model_construct(value.model_fields_set, **given)
        case list() | tuple():
            return type(value)(newer(one) for one in value)
        case dict() if type(value) is dict:
            return {key: newer(one) for key, one in value.items()}
    return value


@dataclass(slots=True)
class Tally:
    """The pairs of unequal calls, and what their keys were."""

    pairs: int = 0
    collisions: int = 0
    refused: int = 0
    #: Copies of a call that had another key, also as a newer version makes them.
    strayed: int = 0
    #: Calls that a newer version makes with other classes of their models.
    newer: int = 0
    #: Calls whose function has moved, under a name of its own.
    moved: int = 0
    example: str = ""

    def count(self, rng: Random) -> None:
        """Draw a pair of calls, and a copy of the first."""
        value = draw(rng)
        first = pay if rng.random() < 0.8 else rng.choice(FUNCTIONS)
        second = first if rng.random() < 0.8 else rng.choice(FUNCTIONS)
        other = value if rng.random() < 0.1 else change(rng, value)
        key = key_of(first, value)
        if key is not None and key != key_of(first, shuffled(rng, value)):
            self.strayed += 1
            self.example = f"{value!r}"
        if key is not None and (later := newer(value)) != value:
            self.newer += 1
            self.strayed += key != key_of(first, later)
        if key is not None and first in MOVED:
            self.moved += 1
            self.strayed += key != key_of(MOVED[first], value)
        if first is second and same(value, other):
            return
        self.pairs += 1
        found = key_of(second, other)
        if key is None or found is None:
            self.refused += 1
        elif key == found:
            self.collisions += 1
            self.example = f"{first} {value!r} and {second} {other!r}"

    def __str__(self) -> str:
        """Return the figures as a line."""
        found = f"pairs={self.pairs} collisions={self.collisions}"
        kept = f"newer={self.newer} moved={self.moved}"
        return f"{found} refused={self.refused} {kept}"


def key_of(function: Callable[..., Any], value: Any) -> str | None:
    """Return the key of a call; None: it is refused."""
    try:
        return call_key(SCOPE, SHOP, function, digest_of([value], {}))
    except UsageError:
        return None


def run(pairs: int, seed: int) -> Tally:
    """Draw so many pairs of unequal calls."""
    rng, tally = Random(seed), Tally()
    while tally.pairs < pairs:
        tally.count(rng)
    return tally


def main() -> None:
    """Print the figures; exit 1 on a collision or a key that is not stable."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally = run(options.pairs, options.seed)
    sys.stdout.write(f"{tally} strayed={tally.strayed}\n{tally.example}\n")
    sys.exit(bool(tally.collisions or tally.strayed))


if __name__ == "__main__":
    main()
