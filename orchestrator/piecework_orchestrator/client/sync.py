"""Methods that wait for their asynchronous originals, for scripts and notebooks.

`Blocking` takes arguments, result and documentation from the original. Only methods
whose types follow the pipeline of a job are written again: a descriptor loses them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from piecework_orchestrator.client.job import JobHandle
from piecework_orchestrator.client.views import Done, Failed

A = ParamSpec("A")
R = TypeVar("R")
T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Wrapper(Protocol):
    """A blocking client or job: the asynchronous one, and the loop that runs it."""

    @property
    def inner(self) -> Any:
        """The asynchronous client or job."""

    @property
    def run(self) -> Run:
        """Runs a coroutine on the client's loop, and returns its value."""


class Blocking(Generic[A, T]):
    """An attribute: the method of the same name, which waits for its result."""

    def __init__(
        self, method: Callable[Concatenate[Any, A], Coroutine[Any, Any, T]]
    ) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, wrapper: Wrapper, _: type[Any] | None = None) -> Callable[A, T]:
        """Return the method of a client or of a job."""

        @wraps(self.method)
        def call(*args: A.args, **kwargs: A.kwargs) -> T:
            result: T = wrapper.run(self.method(wrapper.inner, *args, **kwargs))
            return result

        return call


class BlockingIterator(Generic[A, T]):
    """An attribute: the method of the same name, which waits for each item."""

    def __init__(self, method: Callable[Concatenate[Any, A], AsyncIterator[T]]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(
        self, wrapper: Wrapper, _: type[Any] | None = None
    ) -> Callable[A, Iterator[T]]:
        """Return the method of a client or of a job."""

        @wraps(self.method)
        def call(*args: A.args, **kwargs: A.kwargs) -> Iterator[T]:
            items = self.method(wrapper.inner, *args, **kwargs)
            return one_by_one(wrapper.run, items)

        return call


def one_by_one(run: Run, items: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous iterator."""
    end = object()
    while (item := run(next_item(items, end))) is not end:
        yield item


async def next_item(items: AsyncIterator[T], end: object) -> T | object:
    """Return the next item, or `end`."""
    return await anext(items, end)


class SyncJob(Generic[R]):
    """A job of a `SyncClient`; see `JobHandle` for arguments and errors."""

    def __init__(self, job: JobHandle[R], run: Run) -> None:
        self.inner = job
        self.run = run

    def __repr__(self) -> str:
        """Return the job that this one wraps."""
        return repr(self.inner).replace("JobHandle", "SyncJob", 1)

    @property
    def id(self) -> str:
        """The job id."""
        return self.inner.id

    @property
    def created(self) -> bool:
        """Whether this submit created the job."""
        return self.inner.created

    @property
    def refused(self) -> tuple[str, ...]:
        """What is wrong with the rows that this submit left out or made dead."""
        return self.inner.refused

    def results(self, *, skip: Container[int] = ()) -> Iterator[Done[R] | Failed]:
        """Yield every chunk when it ends, until the job has ended."""
        return one_by_one(self.run, self.inner.results(skip=skip))

    facts = Blocking(JobHandle.facts)
    view = Blocking(JobHandle.view)
    explain = Blocking(JobHandle.explain)
    timeline = Blocking(JobHandle.timeline)
    events = Blocking(JobHandle.events)
    chunks = BlockingIterator(JobHandle.chunks)
    differences = BlockingIterator(JobHandle.differences)
    chunk = Blocking(JobHandle.chunk)
    calls = Blocking(JobHandle.calls)
    call = Blocking(JobHandle.call)
    wait = Blocking(JobHandle.wait)
    export = Blocking(JobHandle.export)
    export_calls = Blocking(JobHandle.export_calls)
    save = Blocking(JobHandle.save)
    cost = Blocking(JobHandle.cost)
    forecast = Blocking(JobHandle.forecast)
    compensation_plan = BlockingIterator(JobHandle.compensation_plan)
    export_dead_letters = Blocking(JobHandle.export_dead_letters)
    cancel = Blocking(JobHandle.cancel)
    set_priority = Blocking(JobHandle.set_priority)
    unpin = Blocking(JobHandle.unpin)
    changes = Blocking(JobHandle.changes)
    accept_changes = Blocking(JobHandle.accept_changes)
    retry = Blocking(JobHandle.retry)
    run_again_plan = Blocking(JobHandle.run_again_plan)
    pause = Blocking(JobHandle.pause)
    set_budget = Blocking(JobHandle.set_budget)
    resume = Blocking(JobHandle.resume)
    delete = Blocking(JobHandle.delete)
    dead_letters = Blocking(JobHandle.dead_letters)
    dead_letter = Blocking(JobHandle.dead_letter)
    redrive = Blocking(JobHandle.redrive)
    discard = Blocking(JobHandle.discard)
    compensate = Blocking(JobHandle.compensate)
    effects = BlockingIterator(JobHandle.effects)
    resolve_effect = Blocking(JobHandle.resolve_effect)
    questions = BlockingIterator(JobHandle.questions)
    question = Blocking(JobHandle.question)
    answer = Blocking(JobHandle.answer)
