"""What the fixture `piecework` of the pytest plugin offers to a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from piecework.declared import PipelineFunction, as_pipeline
from piecework.dependency import DeclaredCall
from piecework.errors import UsageError
from piecework.pipelines import Pipeline
from piecework.testing.faults import Fault
from piecework.testing.memory import MemoryRun, run_in_memory

if TYPE_CHECKING:
    import pytest  # an extra

    from piecework.llm import Model, ModelAnswer, ModelRequest  # only tests of models

#: A function that answers in place of a call, or the answer itself.
Answer: TypeAlias = Callable[..., Any] | object
#: Runs payloads under that many schedules from a seed on; returns the violations.
Simulate: TypeAlias = Callable[[Pipeline, list[BaseModel], range], str]


@dataclass(slots=True)
class Fake:
    """A replacement for a declared call, or for the provider of a model.

    Attributes:
        requests: The positional and the keyword arguments of each execution; of a model
            its `ModelRequest` alone.
    """

    answer: Answer
    requests: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How often the fake was executed."""
        return len(self.requests)

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Record the arguments; return the answer, or what the function returns."""
        self.requests.append((args, kwargs))
        return self.answer(*args, **kwargs) if callable(self.answer) else self.answer

    async def execute_model(self, request: ModelRequest) -> ModelAnswer | str:
        """Record the request; return the answer as a provider sends it."""
        answer = await self.execute(request)
        return answer.model_dump_json() if isinstance(answer, BaseModel) else answer


class Piecework:
    """Runs pipelines in memory with faults, fakes their calls, and simulates them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, simulate: Simulate) -> None:
        self._monkeypatch = monkeypatch
        self._simulate = simulate

    async def run(
        self,
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
        payloads: Sequence[BaseModel | Mapping[str, Any]],
        faults: Sequence[Fault] = (),
        **options: Any,
    ) -> MemoryRun:
        """Run a pipeline in memory; see `run_in_memory`. A mapping is validated."""
        model = as_pipeline(pipeline).payload
        rows = [
            row if isinstance(row, BaseModel) else model.model_validate(row)
            for row in payloads
        ]
        return await run_in_memory(pipeline, rows, faults=faults, **options)

    def fake(self, call: DeclaredCall[..., Any] | Model, answer: Answer) -> Fake:
        """Answer a declared call, or a model, from now until the end of the test.

        Args:
            call: A function that `@dependency.call` declared, or a `Model`.
            answer: The answer, or a plain function of the call's arguments that returns
                it or raises an error. It is not called with the idempotency key. A
                model answers with a text, a `ModelAnswer`, or an object of pydantic,
                which is sent as JSON. Its function receives the `ModelRequest`.

        Raises:
            UsageError: `cli.usage.invalid`: it is neither.
        """
        fake = Fake(answer)
        if isinstance(call, DeclaredCall):
            replaced = call.replaced(fake.execute)
            self._monkeypatch.setattr(call, "function", replaced)
        else:
            require_model(call)
            self._monkeypatch.setattr(call, "caller", fake.execute_model)
        return fake

    def simulate(
        self,
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
        payloads: Iterable[BaseModel],
        *,
        schedules: int = 50,
        seed: int = 1,
    ) -> None:
        """Run a pipeline in virtual time under crashes and faults, many times.

        Raises:
            AssertionError: A schedule violated an invariant; the message has its seed.
                Or no job of several schedules succeeded.
        """
        seeds = range(seed, seed + schedules)
        found = self._simulate(as_pipeline(pipeline), list(payloads), seeds)
        if found:
            raise AssertionError(found)


def require_model(call: object) -> None:
    """Raise for what has no fake: neither a declared call nor a model.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    from piecework.llm import Model  # most tests have none

    if not isinstance(call, Model):
        name = getattr(call, "__qualname__", type(call).__name__)
        message = f"{name} is neither a declared call nor a model: it has no fake."
        step = "Declare it with `@dependency.call`, or pass the `Model`."
        raise UsageError(message, next_step=step)
