"""Declare a pipeline as one typed function of its payload.

@pipeline
async def word_count(paragraph: Paragraph) -> int: ...

@word_count.join
async def total(results: Results[int]) -> int: ...

`Pipeline(stages=[…])` is the form for several checkpoints.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from piecework.context import Context, Results
from piecework.domain.ladder import Ladder
from piecework.domain.notification import NotifyFunction
from piecework.errors import UsageError
from piecework.errors.codes import Code
from piecework.pipelines import Document, Pipeline, Stage, StageFunction

P = TypeVar("P", bound=BaseModel, default=Any)
R = TypeVar("R", default=Any)
J = TypeVar("J")
#: Only the payload's type is bound, so that mypy names the wrong one.
_P = TypeVar("_P", bound=BaseModel)
_R = TypeVar("_R")


class PipelineFunction(Generic[P, R]):
    """A function of a payload that is a pipeline of one stage.

    Called directly it just runs; a worker runs it for each chunk. `join`, `split`,
    `label` and `notify` decorate further functions of the pipeline.
    """

    def __init__(
        self, function: Callable[[P], Any], facts: dict[str, Any], stage: Stage
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._facts = facts
        self._stage = stage
        self._declared: Pipeline | None = None

    def __call__(self, payload: P) -> Awaitable[R]:
        """Run the function outside of a job."""
        found: Awaitable[R] = self._function(payload)
        return found

    @property
    def declared(self) -> Pipeline:
        """The pipeline that workers and submits use.

        Raises:
            UsageError: `pipeline.declaration.invalid`.
        """
        if self._declared is None:
            self._declared = Pipeline(stages=[self._stage], **self._facts)
        return self._declared

    def join(
        self, function: Callable[[Results[R]], Awaitable[J]]
    ) -> Callable[[Results[R]], Awaitable[J]]:
        """Declare the function that runs once, after every chunk has ended."""
        self._set("join", function)
        return function

    def split(
        self, function: Callable[[Document], Iterable[P]]
    ) -> Callable[[Document], Iterable[P]]:
        """Declare the function that splits a document into payloads."""
        self._set("split", function)
        return function

    def label(self, function: Callable[[P], str]) -> Callable[[P], str]:
        """Declare the function that labels a chunk in tables."""
        self._set("label", function)
        return function

    def notify(self, function: NotifyFunction) -> NotifyFunction:
        """Declare the hook that a worker calls when the job has ended."""
        self._set("notify", function)
        return function

    def _set(self, name: str, function: Callable[..., Any]) -> None:
        if self._facts.get(name) is not None:
            message = f"Pipeline {self._facts['name']!r} has two functions for {name}."
            raise UsageError(message, code="pipeline.declaration.invalid")
        self._facts[name], self._declared = function, None


class _Decorator(Protocol):
    """Makes a pipeline of a coroutine function, or of a plain function."""

    @overload
    def __call__(
        self, function: Callable[[_P], Awaitable[_R]], /
    ) -> PipelineFunction[_P, _R]: ...
    @overload
    def __call__(self, function: Callable[[_P], _R], /) -> PipelineFunction[_P, _R]: ...


@overload
def pipeline(
    function: Callable[[_P], Awaitable[_R]], /
) -> PipelineFunction[_P, _R]: ...
@overload
def pipeline(function: Callable[[_P], _R], /) -> PipelineFunction[_P, _R]: ...
@overload
def pipeline(
    *,
    name: str = "",
    owner: str = "",
    runbook: str = "",
    calls_per_chunk: int | None = None,
    ordered_by: Callable[[Any], str | int | None] | None = None,
    queue: str = "",
    ladder: Ladder | None = None,
    codes: Sequence[Code] = (),
    timeout: float | None = None,
    isolate: bool = False,
    memory_mb: int | None = None,
) -> _Decorator: ...
def pipeline(  # noqa: PLR0913 -- facts of the pipeline, and of its stage
    function: Callable[[Any], Any] | None = None,
    /,
    *,
    name: str = "",
    owner: str = "",
    runbook: str = "",
    calls_per_chunk: int | None = None,
    ordered_by: Callable[[Any], str | int | None] | None = None,
    queue: str = "",
    ladder: Ladder | None = None,
    codes: Sequence[Code] = (),
    timeout: float | None = None,
    isolate: bool = False,
    memory_mb: int | None = None,
) -> Any:
    """Declare a function of a payload as a pipeline of one stage.

    The annotations give the payload's model and the type of the result. Calls of
    `@dependency.call` functions inside it are remembered and retried.

    Args:
        function: `async def` or `def`; a plain function runs in a thread, and makes no
            calls.
        name: The name of the pipeline; default: the function's name.
        owner: As for `Pipeline`.
        runbook: As for `Pipeline`.
        calls_per_chunk: As for `Pipeline`.
        ordered_by: As for `Pipeline`.
        queue: As for `Pipeline`.
        ladder: As for `Pipeline`.
        codes: As for `Pipeline`.
        timeout: As for `Stage`.
        isolate: As for `Stage`.
        memory_mb: As for `Stage`.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    def declare(function: Callable[[Any], Any]) -> PipelineFunction[Any, Any]:
        facts: dict[str, Any] = {
            "name": name or function.__name__,
            "payload": payload_type(function),
            "owner": owner,
            "runbook": runbook,
            "calls_per_chunk": calls_per_chunk,
            "ordered_by": ordered_by,
            "queue": queue,
            "ladder": ladder,
            "codes": codes,
        }
        stage = Stage(
            as_stage_function(function),
            timeout=timeout,
            isolate=isolate,
            memory_mb=memory_mb,
        )
        return PipelineFunction(function, facts, stage)

    return declare if function is None else declare(function)


def payload_type(function: Callable[[Any], Any]) -> type[BaseModel]:
    """Return the model that annotates the only parameter.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    parameters = list(inspect.signature(function).parameters)
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        hints = {}
        problem = f"the annotation {error.name} is not known here"
    else:
        problem = "it takes one payload, annotated with a pydantic model"
    found = hints.get(parameters[0]) if len(parameters) == 1 else None
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise UsageError(
            f"{function.__qualname__} is not a pipeline: {problem}.",
            code="pipeline.declaration.invalid",
            next_step="Declare `async def name(payload: Model) -> Result`.",
        )
    return found


def as_stage_function(function: Callable[[Any], Any]) -> StageFunction:
    """Return a stage function that passes the payload of its context on."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(ctx: Context[Any]) -> Any:
            return await function(ctx.payload)

        return run

    @functools.wraps(function)
    def run_plain(ctx: Context[Any]) -> Any:
        return function(ctx.payload)

    return run_plain


def as_pipeline(found: object) -> Pipeline:
    """Return the pipeline of either form of a declaration.

    Raises:
        UsageError: `pipeline.object.not_a_pipeline`.
    """
    if isinstance(found, PipelineFunction):
        return found.declared
    if not isinstance(found, Pipeline):
        message = f"{found!r} is not a pipeline."
        step = "Pass a `Pipeline`, or a function with `@pipeline`."
        code = "pipeline.object.not_a_pipeline"
        raise UsageError(message, code=code, next_step=step)
    return found
