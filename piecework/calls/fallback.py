"""Call the next fallback if a dependency refuses by a policy, a quota or its breaker.

A dependency may declare further codes, such as those of an overloaded model.

A fallback's answer is stored as the answer of the dependency itself. The journal stores
it, or for an effect the ledger. So no later attempt calls the dependency that refused.

A position names one member of the chain: 0 is the dependency, n its n-th fallback.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from piecework import telemetry
from piecework.calls.call import Call, call_key
from piecework.calls.invoke import await_result, in_thread, on_loop
from piecework.dependency import Dependency, Fallback, FallbackUsed
from piecework.domain import values
from piecework.domain.effect import Effect
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import OPEN_CODE
from piecework.resilience.retry import Answered, Failed

if TYPE_CHECKING:
    from piecework.domain.protocols import Journal, Ledger
    from piecework.errors import ErrorEnvelope


#: Makes a call again of another dependency and function, with the same arguments.
MakeCall: TypeAlias = Callable[
    [Call, Dependency, Callable[..., Any]], Awaitable[Answered[str] | Failed]
]


async def call_with_fallbacks(
    call: Call,
    make: MakeCall,
    journal: Journal,
    ledger: Ledger,
    used: dict[str, FallbackUsed],
    log: telemetry.Log,
) -> Answered[str] | Failed:
    """Return the end of the first member of the chain that does not refuse.

    `used` receives the fallback that has answered, by call key.
    """
    stored = journal.recall(answered_by_key(call))
    if stored is not None and journal.recall(call.key) is not None:
        used[call.key] = fallback_used(call, json.loads(stored))
    position, codes = first_position(ledger, call), list[str]()
    while True:
        end = await call_position(call, position, make)
        if isinstance(end, Answered):
            if position:
                answered_by = call.dependency.fallback[position - 1].name
                used[call.key] = fallback_used(call, answered_by)
                await record_answer(journal, call, end.value, answered_by)
                emit_fallback_used(log, call, answered_by, codes)
            return end
        is_last = position == len(call.dependency.fallback)
        if is_last or not is_refused(ledger, call, position, end.envelope):
            return end
        codes.append(end.envelope.code)
        position += 1


def first_position(ledger: Ledger, call: Call) -> int:
    """Return the position to start at: that of an effect that may have happened.

    Its intent was written before its call, after all members above it had refused.
    """
    positions = range(1, len(call.dependency.fallback) + 1)
    begun = (n for n in positions if ledger.may_have_happened(position_key(call, n)))
    return next(begun, 0)


async def call_position(
    call: Call, position: int, make: MakeCall
) -> Answered[str] | Failed:
    """Return the end of one member of the chain.

    Each receives its own copy of the arguments. If one changed them, the next would be
    called with other arguments. A later attempt would not find the key of that call.
    """
    if position == 0:
        alone = replace(call.dependency, fallback=())
        return await make(call, alone, call.bound.func)
    fallback = call.dependency.fallback[position - 1]
    if fallback.dependency is None:
        own = call.copied()
        try:
            answer = await call_function(fallback, *own.args, **own.keywords)
        except Exception as error:  # noqa: BLE001 -- a function may raise anything
            return Failed(classify(error), error)
        return Answered(call.encode(answer))
    end = await make(call, fallback.dependency, fallback.function)
    if isinstance(end, Failed):
        return end
    return Answered(call.encode(values.decode(fallback.function, end.value)))


async def call_function(fallback: Fallback, /, *args: Any, **kwargs: Any) -> Any:
    """Call a fallback without a dependency; a plain function runs in a thread."""
    if inspect.iscoroutinefunction(fallback.function):
        return await on_loop(fallback.function, *args, **kwargs)
    return await await_result(await in_thread(fallback.function, *args, **kwargs))


def is_refused(
    ledger: Ledger, call: Call, position: int, failure: ErrorEnvelope
) -> bool:
    """Return whether the next member may be called: this one did not execute the call.

    For an effect the ledger decides. If an earlier attempt may have executed it, a
    refusal of the last attempt does not count.
    """
    by_policy = failure.error_class is ErrorClass.POLICY
    codes = {OPEN_CODE, *call.dependency.fallback_codes}
    if not by_policy and failure.code not in codes:
        return False
    return not ledger.may_have_happened(position_key(call, position))


async def record_answer(
    journal: Journal, call: Call, value: str, answered_by: str
) -> None:
    """Store a fallback's answer as the dependency's own, with the fallback's name.

    An effect is in the ledger already. While it may have happened, no member above it
    is called.
    """
    if call.dependency.effect is Effect.PURE:
        await journal.record(answered_by_key(call), json.dumps(answered_by))
        await journal.record(call.key, value)


def emit_fallback_used(
    log: telemetry.Log, call: Call, answered_by: str, codes: list[str]
) -> None:
    """Emit the codes of the refusals; without refusals the effect was known already."""
    if codes:
        telemetry.emit(
            log,
            "call.fallback_used",
            dependency=call.dependency.name,
            stage=call.scope.stage,
            answered_by=answered_by,
            error_codes=codes,
        )


def fallback_used(call: Call, answered_by: str) -> FallbackUsed:
    """Return the entry of `ctx.fallbacks_used` for a call."""
    return FallbackUsed(call.scope.stage, call.dependency.name, answered_by)


def position_key(call: Call, position: int) -> str:
    """Return the key under which one member of the chain stores its own answer."""
    if position == 0:
        return call.key
    fallback = call.dependency.fallback[position - 1]
    if fallback.dependency is None:
        return answered_by_key(call)
    return call_key(call.scope, fallback.dependency, fallback.function, call.digest)


def answered_by_key(call: Call) -> str:
    """Return the key under which the name of the fallback is stored."""
    return f"{call.key}.by"
