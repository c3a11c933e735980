from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Effect, named_call
from piecework.calls.usage import ClaimUsage, UsageReporter, estimated_tokens
from piecework.dependency import Dependency, Usage
from piecework.domain.protocols import AlreadyDone, ClaimLostError
from piecework.resilience.retry import RetryPolicy
from tests.unit.piecework.fakes import Diary, Log, caller
from tests.unit.piecework.provider import Provider, RefusedError, call


def tokens(answer: dict[str, Any]) -> Usage:
    return Usage(tokens_in=answer["in"], tokens_out=answer["out"], model="large")


MODEL = Dependency("model", retry=RetryPolicy(attempts=3, base=1.0), usage=tokens)
ANSWER = {"in": 10, "out": 3}


class Bill:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, Usage]] = []
        self.log: Any = Log()

    def hear(self, call: Any, answered: str, usage: Usage) -> None:
        self.told.append((call.dependency.name, answered, usage))

    def of(self, made_by: Any) -> Any:
        made_by.attempts.usage = UsageReporter(self.hear, self.log)
        return made_by


async def test_an_answer_is_paid_for_once_and_spared_when_it_is_remembered() -> None:
    bill, diary, provider = Bill(), Diary(), Provider(answer=ANSWER)
    await call(bill.of(caller(diary)), MODEL, provider, "a")
    later = bill.of(caller(diary))
    await call(later, MODEL, provider, "a")

    usage = Usage(10, 3, None, "large")
    assert [("model", "paid", usage), ("model", "replayed", usage)] == bill.told


async def test_a_call_that_is_made_again_is_paid_for_again() -> None:
    bill, provider = Bill(), Provider(answer=ANSWER)
    for _ in range(2):  # two claims, of which the second finds nothing remembered
        await call(bill.of(caller()), MODEL, provider, "a")

    assert ["paid", "paid"] == [answered for _, answered, _ in bill.told]


async def test_only_the_answer_of_a_retried_call_is_counted() -> None:
    bill = Bill()
    provider = Provider(RefusedError(503), RefusedError(503), answer=ANSWER)
    await call(bill.of(caller()), MODEL, provider, "a")

    assert 3 == len(provider.keys)
    assert 1 == len(bill.told)


async def test_a_call_without_a_price_is_unpriced_and_one_of_nothing_is_free() -> None:
    claim, made_by = ClaimUsage(), caller()
    made_by.attempts.usage = UsageReporter(claim.note)
    usages = iter([Usage(10, 3, 0.5), Usage(20, 6), Usage(), Usage(usd=0)])
    plain = Dependency("m", usage=lambda _: next(usages))
    for text in "abcd":
        await call(made_by, plain, Provider(), text)
    found = {"paid": {"m": [4, 30, 9, 500_000_000]}, "unpriced": {"m": [1, 20, 6]}}
    found["free"] = {"m": [1]}
    assert [claim.whole.item, claim.pure.item] == [found] * 2


async def test_what_a_lookup_finds_is_paid_once() -> None:
    find = named_call("find")(Provider(answer="found").ask)
    bank = Dependency("bank", effect=Effect.LOOKUP, lookup=find)
    claim, diary = ClaimUsage(), Diary()
    with pytest.raises(ClaimLostError):
        await call(caller(diary), bank, Provider(ClaimLostError()), "a")
    made_by = caller(diary)
    made_by.attempts.usage = UsageReporter(claim.note)
    await call(made_by, bank, Provider(), "a")
    assert claim.whole.item == {"paid": {"bank": [1]}}


async def test_what_only_an_operator_knew_is_paid_once() -> None:
    class Resolved(Diary):
        async def begin(self, *_: Any) -> Any:
            return AlreadyDone('"found"', is_counted=False)

    bank = Dependency("bank", effect=Effect.NON_IDEMPOTENT)
    claim, diary = ClaimUsage(), Diary()
    with pytest.raises(ClaimLostError):
        await call(caller(diary), bank, Provider(ClaimLostError()), "a")
    diary = Resolved(effects=diary.effects, stages=diary.stages)
    made_by = caller(diary)
    made_by.attempts.usage = UsageReporter(claim.note)
    assert await call(made_by, bank, Provider(), "a") == "found"
    assert (claim.whole.item, diary.said) == ({"paid": {"bank": [1]}}, ["counted"])


async def test_a_dependency_that_says_nothing_is_counted_without_tokens() -> None:
    bill = Bill()
    plain = Dependency("fax")
    await call(bill.of(caller()), plain, Provider(), "a")

    assert [("fax", "paid", Usage())] == bill.told


@pytest.mark.parametrize(
    "usage",
    [
        lambda answer: answer["nothing of the kind"],
        lambda answer: None,
        lambda answer: Usage(tokens_in=-1),
        lambda answer: Usage(usd=float("-inf")),
        lambda answer: Usage(usd=float("inf")),
        lambda answer: Usage(usd=float("nan")),
        lambda answer: Usage(tokens_out=10**40),
    ],
)
async def test_what_a_persons_function_raises_costs_the_call_nothing(
    usage: Any,
) -> None:
    bill = Bill()
    wrong = Dependency("model", usage=usage)
    answer = await call(bill.of(caller()), wrong, Provider(answer=ANSWER), "a")

    assert ANSWER == answer
    assert [("model", "paid", Usage())] == bill.told
    assert ["usage.failed"] == [e for e in bill.log.names() if "usage" in e]


@dataclass(slots=True)
class Prompt:
    text: str


class Extra(BaseModel, extra="allow"):
    text: str = ""


class Tone(Enum):
    FORMAL = "formally"


async def ask(prompt: Any, max_tokens: int = 100) -> None:
    del prompt, max_tokens


@pytest.mark.parametrize(
    ("bound", "tokens"),
    [
        (functools.partial(ask, {"a": ["four"]}), 101),
        (functools.partial(ask, Prompt("four" * 9), 50), 59),
        (functools.partial(ask, Extra(text="four", more="four"), max_tokens=50), 52),
        (functools.partial(ask, Tone.FORMAL), 102),
        (functools.partial(str), 1),
    ],
)
def test_the_tokens_of_a_call_are_those_of_its_texts_and_its_limit(
    bound: functools.partial[Any], tokens: int
) -> None:
    assert estimated_tokens(Dependency("model"), bound) == tokens
