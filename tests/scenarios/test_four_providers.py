"""Guarantee: four providers' batches are paid once, whenever a collector is killed.

`make batches` asks 2,000 calls in each of 100 runs, with a kill at another step each.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from piecework.declared import as_pipeline
from piecework.domain.states import JobStatus
from piecework.store.batches import Batches
from tests.providers.stub import Billed, Stub
from tests.scenarios import conftest
from tests.scenarios.conftest import Scenario
from tests.scenarios.test_costs import model_bill
from tests.virtual_time import PROCESS

pytest.importorskip("anthropic")
pytest.importorskip("openai")
from tests.scenarios import four_providers
from tests.scenarios.four_providers import NAMES, Survey

PIPELINE = as_pipeline(four_providers.surveying_four)
#: Calls in all, and runs: each has a kill at another step.
CALLS = int(os.environ.get("CALLS", "160"))
RUNS = int(os.environ.get("RUNS", "3"))
#: Calls of a chunk to each provider.
EACH = 10
#: What a collector writes, and asks of a provider.
WRITES = (
    *("take", "renew", "plan", "drop_asked", "created", "note", "answer"),
    *("close", "end", "leave"),
)
REQUESTS = ("create", "find", "status", "cancel")


@dataclass
class Killer:
    """Kills the worker that makes the n-th step of all collectors.

    Attributes:
        at: The step; 0: none.
    """

    at: int
    steps: int = 0
    killed: Any = None

    async def step(self) -> None:
        """Count a step, and die there if it is the one."""
        self.steps += 1
        process = PROCESS.get()
        if self.steps == self.at and process is not None:
            self.killed = process
            process.kill()
            await asyncio.sleep(1e9)

    def around(self, true: Any) -> Any:
        """Return a method with a step before and after it."""

        async def method(*args: Any, **kwargs: Any) -> Any:
            await self.step()
            found = await true(*args, **kwargs)
            await self.step()
            return found

        return method

    def before(self, true: Any) -> Any:
        """Return an iterator with a step before each item."""

        async def items(*args: Any) -> AsyncIterator[Any]:
            async for each in true(*args):
                await self.step()
                yield each

        return items


async def ran(
    scenario: Scenario, patch: pytest.MonkeyPatch, at: int
) -> tuple[Killer, dict[str, Stub]]:
    """Run the job with a kill at a step; check the books."""
    patch.setenv("PIECEWORK_RECEIVE_WAIT_S", "20")
    patch.setenv("PIECEWORK_RECONCILE_S", "20")
    patch.setitem(conftest.ALL, PIPELINE.name, PIPELINE)
    stubs, adapters = four_providers.providers(scenario.rt.clock)
    patch.setattr(four_providers, "adapters", adapters)
    killer = Killer(at)
    for name in WRITES:
        patch.setattr(Batches, name, killer.around(getattr(Batches, name)))
    for adapter in adapters.values():
        kind: Any = type(adapter.batches)
        for name in REQUESTS:
            patch.setattr(kind, name, killer.around(getattr(kind, name)))
        patch.setattr(kind, "outcomes", killer.before(kind.outcomes))
    chunks = CALLS // (EACH * len(NAMES))
    items = [Survey(n=n, calls=EACH) for n in range(chunks)]
    await scenario.submit(PIPELINE, items)  # type: ignore[arg-type]
    for _ in range(2):
        await scenario.process("--no-reconcile", pipelines=four_providers.__name__)
    async with scenario.reconciler():
        while not (job := await scenario.job()).status.ended:  # noqa: ASYNC110 -- rows tell
            await asyncio.sleep(20.0)
    assert job.status is JobStatus.SUCCEEDED
    bill = await model_bill(scenario)
    book = [entry for stub in stubs.values() for entry in stub.book]
    paid, direct = sum(b.nano_usd for b in book), sum(full(b) for b in book)
    # No call is lost or paid twice, and the bill is the providers' book.
    assert (len(book), bill["paid"]["calls"]) == (CALLS, CALLS)
    assert round(bill["paid"]["usd"] * 1e9) == paid
    assert paid <= 0.52 * direct
    for name, stub in stubs.items():
        digests = Counter(made.digest or made.id for made in stub.batches.values())
        assert max(digests.values()) == 1, name
    return killer, stubs


def full(entry: Billed) -> int:
    """Return what an answer would cost without a batch, in billionths of a dollar."""
    return entry.tokens_in * 250 + entry.tokens_out * 2_000


@pytest.mark.parametrize("run", range(RUNS + 1))
async def test_a_kill_of_a_collector_at_any_step_costs_nothing(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    # The first run has no kill; it has some 80 steps and two for each call.
    steps = 80 + 2 * CALLS
    at = 0 if run == 0 else 1 + (run - 1) * steps // RUNS
    killer, _ = await ran(scenario, monkeypatch, at)
    assert (killer.killed is not None) == (run > 0)
    if run == 0:
        assert killer.steps >= steps
