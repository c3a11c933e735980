"""Instrument a pipeline: its calls go to the simulated provider."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from piecework.calls.call import call_key
from piecework.calls.equal_calls import operation_ref
from piecework.calls.fleet_budgets import is_priced
from piecework.calls.usage import estimated_tokens
from piecework.context import Context, Results
from piecework.dependency import Dependency, Fallback
from piecework.domain import values
from piecework.domain.arguments import digest_of
from piecework.domain.identity import declare_text, function_text, unfold
from piecework.domain.notification import Notification
from piecework.errors import PieceworkError
from piecework.pipelines import Pipeline, Stage, StageFunction
from piecework.saga import stage as stage_run
from piecework_simulation.batch_provider import SimulatedBatching
from piecework_simulation.driver.input_faults import strike
from piecework_simulation.provider import (
    CURRENT_CALL,
    PROVIDER,
    ChunkKey,
    OutgoingCall,
    ProviderError,
)

#: The class that replaces each class of context.
Contexts: TypeAlias = Mapping[type, type[Context[Any]]]


def instrument_pipeline(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with all its functions watched."""
    by_function: dict[Any, Any] = {}
    contexts = redirected_contexts(by_function)
    stages = [instrument_stage(stage, contexts) for stage in pipeline.stages]
    by_function.update(
        {old.run: new.run for old, new in zip(pipeline.stages, stages, strict=True)}
    )
    result = pipeline.stages[pipeline.result_index].run
    join = pipeline.join and instrument_function(pipeline.join, contexts)
    changed: dict[str, Any] = {
        "stages": stages,
        "result": by_function[result],
        "join": join,
    }
    if pipeline.notify is not None:
        changed["notify"] = record_notification
    return replace(pipeline, **changed)


async def record_notification(notice: Notification) -> None:
    """Replace a pipeline's notify hook, which would use the network."""
    provider = PROVIDER.get()
    await asyncio.sleep(provider.world.rng.random())
    if provider.world.faults.fires("call.transient"):
        raise ProviderError(503)
    provider.notifications[f"{notice.job} {notice.event} {notice.status}"] += 1


def instrument_stage(stage: Stage, contexts: Contexts) -> Stage:
    """Return a stage whose calls go to the simulated provider."""
    undo = stage.compensate and instrument_function(stage.compensate, contexts)
    replan = stage.replan and instrument_function(stage.replan, contexts, stage.run)
    return replace(
        stage,
        run=instrument_stage_function(stage.run, contexts),
        compensate=undo,
        replan=replan,
        fallback=[
            instrument_function(each, contexts, stage.run) for each in stage.fallback
        ],
    )


def instrument_function(
    function: Callable[..., Any],
    contexts: Contexts,
    stage: Callable[..., Any] | None = None,
) -> Callable[[Any], Any]:
    """Return a stage function that receives an instrumented context.

    `stage`: the stage's own function, by which the worker encodes the value.
    """

    @functools.wraps(function)
    async def run(ctx: Context[Any]) -> Any:
        ctx.__class__ = contexts.get(type(ctx), type(ctx))
        value = await stage_run.invoke(function, ctx)
        if stage is not None:
            PROVIDER.get().record_value(chunk_of(ctx), encode(stage, value))
        return value

    return run


def chunk_of(ctx: Context[Any]) -> ChunkKey:
    """Return the chunk of a context."""
    return ctx.tenant, ctx.job, ctx.chunk


def encode(function: Callable[..., Any], value: Any) -> str:
    """Return a stage's value as the worker stores it; empty if it will refuse it."""
    try:
        return values.encode(function, value)
    except PieceworkError:
        return ""


def instrument_stage_function(
    function: Callable[..., Any], contexts: Contexts
) -> Callable[[Any], Any]:
    """Return a stage's own function, which shows the faults of its inputs, too."""
    inner = instrument_function(function, contexts, function)

    @functools.wraps(function)
    async def run(ctx: Context[Any]) -> Any:
        await strike(ctx, late=False)
        value = await inner(ctx)
        await strike(ctx, late=True)
        return value

    return run


def redirected_contexts(by_function: dict[Any, Any]) -> Contexts:
    """Return the class that replaces each class of context that a function receives.

    A context stays the object that it is: it is iterated, changed and told by its type
    as in a worker. Only its calls go to the simulated provider.
    """

    class Redirected(Context[Any]):
        __slots__ = ()

        def result(self, stage: StageFunction) -> Any:
            """Return the value of an earlier stage, which the chunk returned."""
            value = super().result(by_function.get(stage, stage))
            if isinstance(value, int | str):  # other types may have several encodings
                PROVIDER.get().check_value(chunk_of(self), encode(stage, value))
            return value

        async def call(
            self,
            dependency: Dependency,
            function: Callable[..., Awaitable[Any]],
            /,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            """Call the simulated provider."""
            function, args, kwargs = unfold(function, args, kwargs)
            outgoing = outgoing_call(self, dependency, function, args, kwargs)
            token = CURRENT_CALL.set(outgoing)
            try:
                return await super().call(
                    instrument_dependency(dependency),
                    instrument_call(function),
                    *args,
                    **kwargs,
                )
            finally:
                CURRENT_CALL.reset(token)

    class RedirectedResults(Redirected, Results[Any]):
        __slots__ = ()

    return {Context: Redirected, Results: RedirectedResults}


def outgoing_call(
    ctx: Context[Any],
    dependency: Dependency,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> OutgoingCall:
    """Return a call with its identity; tell the provider what it shares."""
    identity = call_key(ctx.scope, dependency, function, digest_of(args, kwargs))
    ref = operation_ref(ctx.tenant, dependency, function, args, kwargs)
    estimate = estimate_of(dependency, function, args, kwargs)
    outgoing = OutgoingCall(
        identity, dependency, ctx.scope, operation=ref, estimate=estimate
    )
    PROVIDER.get().check_request(outgoing)
    PROVIDER.get().batches.note_call(outgoing, function, args, kwargs)
    if ref is not None:
        PROVIDER.get().sharing.add(chunk_of(ctx))
    if outgoing.stream:
        PROVIDER.get().numbered[identity] = outgoing.stream
    return outgoing


def estimate_of(
    dependency: Dependency,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> int:
    """Return the tokens that a budget reserves for a call; 0 if none counts it."""
    if not is_priced(dependency):
        return 0
    with suppress(PieceworkError):  # the worker refuses the call
        return estimated_tokens(
            dependency, functools.partial(function, *args, **kwargs)
        )
    return 0


@functools.cache
def instrument_dependency(dependency: Dependency) -> Dependency:
    """Return a dependency, and its fallbacks, whose effects the provider records."""
    return replace(
        dependency,
        lookup=look_up if dependency.lookup else None,
        batch=SimulatedBatching(dependency.batch) if dependency.batch else None,
        fallback=[instrument_fallback(each) for each in dependency.fallback],
    )


async def look_up(*_: Any, idempotency_key: str, **__: Any) -> Any:
    """Replace a provider's search."""
    return await PROVIDER.get().look_up(idempotency_key)


def instrument_fallback(fallback: Fallback) -> Fallback:
    """Return a fallback whose calls the provider records as calls of their own."""
    if fallback.dependency is None:
        return fallback
    function, dependency = fallback.function, instrument_dependency(fallback.dependency)
    if dependency.lookup:
        found = as_fallback(fallback.dependency, function, look_up)
        dependency = replace(dependency, lookup=found)
    called = as_fallback(fallback.dependency, function, instrument_call(function))
    return Fallback(dependency, called)


def as_fallback(
    dependency: Dependency, function: Callable[..., Any], call: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a call that is made as a fallback of the call in progress."""

    @functools.wraps(function)
    async def called(*args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        outgoing = CURRENT_CALL.get()
        identity = call_key(
            outgoing.scope, dependency, function, digest_of(args, kwargs)
        )
        estimate = estimate_of(dependency, function, args, kwargs)
        this = replace(
            outgoing,
            identity=identity,
            dependency=dependency,
            chain=outgoing.identity,
            operation=None,
            estimate=estimate,
        )
        PROVIDER.get().check_request(this)
        PROVIDER.get().batches.note_call(this, function, args, kwargs)
        token = CURRENT_CALL.set(this)
        try:
            return await call(*args, idempotency_key=idempotency_key, **kwargs)
        finally:
            CURRENT_CALL.reset(token)

    return stand_for(called, function)


@functools.cache
def instrument_call(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Return a function whose calls go through the provider's faults and records."""

    @functools.wraps(function)
    async def call(*args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        return await PROVIDER.get().call(function, args, kwargs, idempotency_key)

    return stand_for(call, function)


def stand_for(call: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a call that takes the idempotency key stand for any function in keys.

    The function may not take the key. The signature of the call counts, not that of the
    function.
    """
    call.__signature__ = inspect.signature(call, follow_wrapped=False)
    stands: Callable[..., Any] = declare_text(call, function_text(function), function)
    return stands
