"""Ask the next of a chain where one refuses: by a policy, a quota or an open breaker.

The answer of another is remembered as the first one's own, so that whoever comes after
does not ask the refusing one again: in the journal, or by an effect in the ledger.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from piecework import telemetry
from piecework.breaker import is_breaker_open
from piecework.call import Call
from piecework.call_names import call_key
from piecework.classify import classify
from piecework.codes import ErrorClass
from piecework.contained import await_result, in_thread, on_loop
from piecework.dependency import Effect, Fallback

if TYPE_CHECKING:
    from piecework.calls import Caller


@dataclass(frozen=True, slots=True)
class FallbackUsed:
    """A call of a stage that another of its chain has answered.

    Attributes:
        dependency: Who was to be asked.
        to: Who answered: a dependency, or a function that asks nobody.
    """

    stage: str
    dependency: str
    to: str


async def by_chain(caller: Caller, call: Call) -> str:
    """Return what the first of a call's chain answers that does not refuse.

    Raises:
        Exception: What the last one raised, or one that did not refuse.
    """
    if caller.journal.recall(call.key) is not None:
        return await remembered(caller, call)
    place, codes = begun(caller, call), list[str]()
    while True:
        try:
            value = await ask(caller, call, place)
        except Exception as error:
            last = place == len(call.dependency.fallback)
            if last or not refused(caller, call, place, error):
                raise
            codes.append(classify(error).code)
            place += 1
        else:
            if place:
                to = call.dependency.fallback[place - 1].name
                await remember(caller, call, value, to)
                tell(caller, call, to, codes)
            return value


async def remembered(caller: Caller, call: Call) -> str:
    """Return the answer that the journal has, and know again who gave it."""
    to = caller.journal.recall(by_key(call))
    if to is not None:
        caller.fallbacks_used[call.key] = fallback_used(call, json.loads(to))
    return await caller.value_of(call)


def begun(caller: Caller, call: Call) -> int:
    """Return whom to ask first: the one whose effect stands, if one does.

    Its intent was written before it was asked, when those above it had refused.
    """
    places = range(1, len(call.dependency.fallback) + 1)
    stands = (n for n in places if caller.ledger.may_have_happened(key_of(call, n)))
    return next(stands, 0)


async def ask(caller: Caller, call: Call, place: int) -> str:
    """Ask one of the chain; 0 is the dependency itself.

    Each is given its own copy of the arguments: were one to change them, the next would
    be asked for something else, under a key that whoever comes after does not find.
    """
    bound = copied(call.bound)
    if place == 0:
        return await caller.value_of(replace(call, bound=bound))
    fallback = call.dependency.fallback[place - 1]
    if fallback.dependency is None:
        return call.encode(await by_itself(fallback, *bound.args, **bound.keywords))
    answer = await caller.call(
        call.scope, fallback.dependency, fallback.function, bound.args, bound.keywords
    )
    return call.encode(answer)


def copied(
    bound: functools.partial[Awaitable[Any]],
) -> functools.partial[Awaitable[Any]]:
    """Return a function with arguments of its own."""
    args, kwargs = copy.deepcopy((bound.args, bound.keywords))
    return functools.partial(bound.func, *args, **kwargs)


async def by_itself(fallback: Fallback, *args: Any, **kwargs: Any) -> Any:
    """Call a function that asks nobody: on the loop, or a plain one beside it."""
    if inspect.iscoroutinefunction(fallback.function):
        return await on_loop(fallback.function, *args, **kwargs)
    return await await_result(await in_thread(fallback.function, *args, **kwargs))


def refused(caller: Caller, call: Call, place: int, error: Exception) -> bool:
    """Say whether another may be asked: this one has not done it, and will not.

    Of an effect the ledger has the word: a refusal after an attempt that may have done
    it is none.
    """
    by_policy = classify(error).error_class is ErrorClass.POLICY
    if not by_policy and not is_breaker_open(error):
        return False
    return not caller.ledger.may_have_happened(key_of(call, place))


async def remember(caller: Caller, call: Call, value: str, to: str) -> None:
    """Keep an answer as the first one's own, with who gave it.

    An effect is in the ledger already, and nobody above it is asked while it stands.
    """
    caller.fallbacks_used[call.key] = fallback_used(call, to)
    if call.dependency.effect is Effect.PURE:
        await caller.journal.record(by_key(call), json.dumps(to))
        await caller.journal.record(call.key, value)


def tell(caller: Caller, call: Call, to: str, codes: list[str]) -> None:
    """Tell who answered and why those above did not; nothing of what stands already."""
    if codes:
        telemetry.emit(
            caller.attempts.log,
            "call.fallback_used",
            dependency=call.dependency.name,
            stage=call.scope.stage,
            answered_by=to,
            error_codes=codes,
        )


def fallback_used(call: Call, to: str) -> FallbackUsed:
    """Return what a stage is told of a call."""
    return FallbackUsed(call.scope.stage, call.dependency.name, to)


def key_of(call: Call, place: int) -> str:
    """Return the key under which one of the chain remembers its own answer."""
    if place == 0:
        return call.key
    fallback, bound = call.dependency.fallback[place - 1], call.bound
    if fallback.dependency is None:
        return by_key(call)
    return call_key(
        call.scope,
        fallback.dependency,
        fallback.function,
        bound.args,
        bound.keywords,
    )


def by_key(call: Call) -> str:
    """Return the key under which it is remembered who answered."""
    return f"{call.key}.by"
