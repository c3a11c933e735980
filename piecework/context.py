"""What a stage is given: its payload, the earlier results, and the only way out.

ctx.call = key -> remembered? -> intent -> retries -> remembered
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast, overload

import structlog

from piecework import keys, values
from piecework.call_names import CallScope
from piecework.calls import Caller
from piecework.dependency import Dependency
from piecework.errors import ErrorEnvelope, UsageError
from piecework.falling_back import FallbackUsed
from piecework.pipeline import Pipeline
from piecework.ports import JobResults, MissingChunk, StageRunner

#: What Python calls a function without a name.
LAMBDA = "<lambda>"

P = TypeVar("P")
R = TypeVar("R")


@dataclass(slots=True)
class Context(Generic[P]):
    """One chunk in the hands of its stages.

    Attributes:
        payload: The chunk's payload, as the pipeline's payload model.
        tenant, job, chunk: Whose work this is; `chunk` counts from 0.
        attempt: Which attempt of the chunk this is, from 1.
        log: A structlog logger with the ids bound.
        bench: Where the stages run; None: right here.
        failure: Why the stage runs in another way than its own: what it is to plan
            around, or whom a fallback stands in for; None: it is its first way.
        lent: The stages whose results were given out, and may be changed since.
        over: The stage has ended; what it left behind makes no further calls.
        given: What the last run of a stage was given, or is.
    """

    payload: P
    pipeline: Pipeline
    tenant: str
    job: str
    chunk: int
    attempt: int
    caller: Caller
    log: structlog.stdlib.BoundLogger = field(repr=False)
    stage: str = ""
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    runner: StageRunner | None = field(default=None, repr=False)
    failure: ErrorEnvelope | None = None
    shared: set[str] = field(default_factory=set, repr=False)
    closed: bool = field(default=False, repr=False)
    current: Self | None = field(default=None, repr=False)

    def for_stage(self) -> Self:
        """Return the context of one run of a stage, which may do to it what it likes.

        The next claim finds the payload as it was submitted; so does the next stage.
        """
        payload = copy.deepcopy(self.payload)
        self.current = replace(self, payload=payload, current=None)
        return self.current

    @overload
    def result(self, stage: Callable[[Context[Any]], Awaitable[R]]) -> R: ...
    @overload
    def result(self, stage: Callable[[Context[Any]], R]) -> R: ...
    def result(self, stage: Callable[[Context[Any]], Any]) -> Any:
        """Return what an earlier stage returned.

        Raises:
            UsageError: When that stage is not of this pipeline or has not run yet.
        """
        name = self.pipeline.stages[self.pipeline.index_of(stage)].name
        if name not in self.values:
            message = f"Stage {self.stage!r} asks for {name!r}, which has not run yet."
            raise UsageError(message, code="pipeline.declaration.invalid")
        self.shared.add(name)
        return self.values[name]

    async def call(
        self,
        dependency: Dependency,
        function: Callable[..., Awaitable[R]],
        *args: Any,
        **kwargs: Any,
    ) -> R:
        """Call an outside service: remembered, retried, with an idempotency key.

        `function` is given `*args`, `**kwargs` and `idempotency_key=`. Two calls of a
        stage are one call if the names of their functions and their arguments are
        equal: what the function finds around it is no part of a call.

        Raises:
            UsageError: The function has no name of its own: it is a lambda.
            Exception: What the last attempt raised, when the retries are spent.
            PermanentError: `runtime.effect.unknown`, when nobody can tell whether an
                effect of an earlier attempt took place.
            RuntimeError: The stage has ended; this is something that it left behind.
        """
        if getattr(function, "__name__", LAMBDA) == LAMBDA:
            raise UsageError(
                f"Stage {self.stage!r} calls what has no name: any two would be one.",
                code="pipeline.declaration.invalid",
                next_step="Call a function that has a name, with all it needs as "
                "arguments.",
            )
        if self.closed:
            message = f"{function.__qualname__} is called after the end of its stage."
            raise RuntimeError(message)
        scope = CallScope(self.tenant, self.job, self.chunk, self.stage)
        return cast(
            "R", await self.caller.call(scope, dependency, function, args, kwargs)
        )

    @property
    def fallbacks_used(self) -> tuple[FallbackUsed, ...]:
        """The calls of this stage so far that another of their chain has answered."""
        calls = self.caller.fallbacks_used.values()
        return tuple(call for call in calls if call.stage == self.stage)

    @property
    def sensitive_data(self) -> tuple[Any, ...]:
        """The data of the chunk, which no error's message is to quote."""
        changed = self.current.payload if self.current else None
        return self.payload, changed, self.values, list(self.caller.recent_io)

    def progress(self) -> None:
        """Say that the stage is alive; one silent for too long counts as hung."""
        self.caller.progress()


@dataclass(slots=True)
class ChunkResult:
    """A chunk's result, typed by the annotation of the pipeline's result stage."""

    chunk: int
    label: str
    value: Any


@dataclass(slots=True)
class JoinContext(Context[None]):
    """What the join is given: a stream of results, and those that are missing."""

    harvest: JobResults = field(kw_only=True, repr=False)

    async def results(self) -> AsyncIterator[ChunkResult]:
        """Yield the result of each finished chunk, in chunk order, one at a time."""
        stage = self.pipeline.stages[self.pipeline.result_index].run
        async for stored in self.harvest.results():
            value = values.decode(stage, stored.value)
            self.caller.recent_io.append(stored.value)
            yield ChunkResult(stored.chunk, stored.label, value)
            self.progress()

    @property
    def missing(self) -> tuple[MissingChunk, ...]:
        """The chunks that have no result, each with its status and error code."""
        return tuple(self.harvest.missing)

    async def write(
        self,
        name: str,
        content: str | bytes,
        media_type: str = "application/octet-stream",
    ) -> str:
        """Save a file of the job's and return where it stands.

        Raises:
            UsageError: When the name could be a path.
        """
        if not keys.is_file_name(name):
            message = f"{name!r} is no file name: letters, digits, '.', '-' and '_'."
            raise UsageError(message, code="pipeline.artifact.bad_name")
        content = content.encode() if isinstance(content, str) else content
        return await self.harvest.write(name, content, media_type)
