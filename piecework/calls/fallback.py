"""Call the next fallback if a dependency refuses by a policy, a quota or its breaker.

A dependency may declare further codes, such as those of an overloaded model.

A fallback's answer is stored as the answer of the dependency itself. The journal stores
it, or for an effect the ledger. So no later attempt calls the dependency that refused.

A position names one member of the chain: 0 is the dependency, n its n-th fallback.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from piecework import telemetry
from piecework.calls.call import Call, call_key
from piecework.calls.invoke import await_result, in_thread, on_loop
from piecework.dependency import Fallback
from piecework.domain import values
from piecework.domain.effect import Effect
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import OPEN_CODE
from piecework.resilience.retry import Answered, Failed

if TYPE_CHECKING:
    from piecework.calls.caller import Caller
    from piecework.errors import ErrorEnvelope


@dataclass(frozen=True, slots=True)
class FallbackUsed:
    """A call of a stage that a fallback has answered.

    Attributes:
        dependency: The dependency that refused the call.
        answered_by: The name of the fallback: a dependency or a plain function.
    """

    stage: str
    dependency: str
    answered_by: str


async def call_with_fallbacks(caller: Caller, call: Call) -> Answered[str] | Failed:
    """Return the end of the first member of the chain that does not refuse."""
    note_stored_fallback(caller, call)
    position, codes = first_position(caller, call), list[str]()
    while True:
        end = await call_position(caller, call, position)
        if isinstance(end, Answered):
            if position:
                answered_by = call.dependency.fallback[position - 1].name
                await record_answer(caller, call, end.value, answered_by)
                emit_fallback_used(caller, call, answered_by, codes)
            return end
        is_last = position == len(call.dependency.fallback)
        if is_last or not is_refused(caller, call, position, end.envelope):
            return end
        codes.append(end.envelope.code)
        position += 1


def note_stored_fallback(caller: Caller, call: Call) -> None:
    """Note the fallback that gave the answer, if the journal has the answer."""
    answered_by = caller.journal.recall(answered_by_key(call))
    if answered_by is not None and caller.journal.recall(call.key) is not None:
        caller.fallbacks_used[call.key] = fallback_used(call, json.loads(answered_by))


def first_position(caller: Caller, call: Call) -> int:
    """Return the position to start at: that of an effect that may have happened.

    Its intent was written before its call, after all members above it had refused.
    """
    positions = range(1, len(call.dependency.fallback) + 1)
    begun = (
        n for n in positions if caller.ledger.may_have_happened(position_key(call, n))
    )
    return next(begun, 0)


async def call_position(
    caller: Caller, call: Call, position: int
) -> Answered[str] | Failed:
    """Return the end of one member of the chain.

    Each receives its own copy of the arguments. If one changed them, the next would be
    called with other arguments. A later attempt would not find the key of that call.
    """
    args, kwargs = call.bound.args, call.bound.keywords
    if position == 0:
        alone = replace(call.dependency, fallback=())
        return await caller.call(
            call.scope, alone, call.bound.func, args, kwargs, digest=call.digest
        )
    fallback = call.dependency.fallback[position - 1]
    if fallback.dependency is None:
        own = call.copied()
        try:
            answer = await call_function(fallback, *own.args, **own.keywords)
        except Exception as error:  # noqa: BLE001 -- a function may raise anything
            return Failed(classify(error), error)
        value = call.encode(answer)
        caller.recent_io.append(value)
        return Answered(value)
    target = fallback.dependency, fallback.function
    end = await caller.call(call.scope, *target, args, kwargs, digest=call.digest)
    if isinstance(end, Failed):
        return end
    return Answered(call.encode(values.decode(fallback.function, end.value)))


async def call_function(fallback: Fallback, /, *args: Any, **kwargs: Any) -> Any:
    """Call a fallback without a dependency; a plain function runs in a thread."""
    if inspect.iscoroutinefunction(fallback.function):
        return await on_loop(fallback.function, *args, **kwargs)
    return await await_result(await in_thread(fallback.function, *args, **kwargs))


def is_refused(
    caller: Caller, call: Call, position: int, failure: ErrorEnvelope
) -> bool:
    """Return whether the next member may be called: this one did not execute the call.

    For an effect the ledger decides. If an earlier attempt may have executed it, a
    refusal of the last attempt does not count.
    """
    by_policy = failure.error_class is ErrorClass.POLICY
    codes = {OPEN_CODE, *call.dependency.fallback_codes}
    if not by_policy and failure.code not in codes:
        return False
    return not caller.ledger.may_have_happened(position_key(call, position))


async def record_answer(
    caller: Caller, call: Call, value: str, answered_by: str
) -> None:
    """Store a fallback's answer as the dependency's own, with the fallback's name.

    An effect is in the ledger already. While it may have happened, no member above it
    is called.
    """
    caller.fallbacks_used[call.key] = fallback_used(call, answered_by)
    if call.dependency.effect is Effect.PURE:
        await caller.journal.record(answered_by_key(call), json.dumps(answered_by))
        await caller.journal.record(call.key, value)


def emit_fallback_used(
    caller: Caller, call: Call, answered_by: str, codes: list[str]
) -> None:
    """Emit the codes of the refusals; without refusals the effect was known already."""
    if codes:
        telemetry.emit(
            caller.attempts.log,
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
