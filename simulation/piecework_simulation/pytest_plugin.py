"""The pytest plugin: the fixture `piecework` runs pipelines with faults and fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from pydantic import BaseModel

from piecework.declared import PipelineFunction, as_pipeline
from piecework.dependency import DeclaredCall
from piecework.pipelines import Pipeline
from piecework.testing import Fault, MemoryRun, run_in_memory

#: A function that answers in place of a call, or the answer itself.
Answer = Callable[..., Any] | object


@dataclass(slots=True)
class Fake:
    """A replacement for a declared call.

    Attributes:
        requests: The positional and the keyword arguments of each execution.
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


class Piecework:
    """What the fixture `piecework` offers to a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    async def run(
        self,
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
        payloads: Sequence[BaseModel],
        faults: Sequence[Fault] = (),
        **options: Any,
    ) -> MemoryRun:
        """Run a pipeline in memory; see `run_in_memory`."""
        return await run_in_memory(pipeline, payloads, faults=faults, **options)

    def fake(self, call: DeclaredCall[..., Any], answer: Answer) -> Fake:
        """Answer a declared call from now until the end of the test.

        Args:
            call: A function that `@dependency.call` declared.
            answer: The answer, or a plain function of the call's arguments that returns
                it or raises an error. It is not called with the idempotency key.
        """
        fake = Fake(answer)
        self._monkeypatch.setattr(call, "function", call.replaced(fake.execute))
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
        """
        # The simulator is loaded only by tests that use it.
        from piecework_simulation.driver.actions import Workload
        from piecework_simulation.driver.schedule import run_schedule
        from piecework_simulation.driver.simulated_pipeline import instrument_pipeline

        found = list(payloads)

        def draw(rng: Random) -> Sequence[BaseModel]:
            return rng.choices(found, k=rng.randint(1, len(found)))

        workload = Workload(instrument_pipeline(as_pipeline(pipeline)), draw)
        for number in range(seed, seed + schedules):
            violations = run_schedule(number, [workload]).violations
            if violations:
                again = f"simulate(…, schedules=1, seed={number})"
                message = f"seed {number}: {'; '.join(violations)}. Replay: {again}"
                raise AssertionError(message)


@pytest.fixture
def piecework(monkeypatch: pytest.MonkeyPatch) -> Piecework:
    """Run pipelines in memory with faults, fake their calls, and simulate them."""
    return Piecework(monkeypatch)
