"""A pipeline of four stages that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from piecework.dependency import Dependency
from piecework.domain.effect import Effect
from piecework.domain.outcome import CompensationResult, DeadLettered
from piecework.errors import ErrorEnvelope
from piecework.pipelines import Pipeline, Stage
from tests.unit.piecework.fakes import Clause

ONCE = Dependency("fax", effect=Effect.NON_IDEMPOTENT)
BANK = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)


class Script:
    """Declares stages a, b, c, d that note what is done and fail as they are told."""

    def __init__(
        self,
        *,
        pivot: str = "",
        undoable: str = "abcd",
        fails: dict[str, Any] | None = None,
    ) -> None:
        self.did: list[str] = []
        self.fails = dict(fails or {})
        self.pipeline = Pipeline(
            name="script",
            payload=Clause,
            stages=[self.stage(name, pivot, undoable) for name in "abcd"],
        )

    def stage(self, name: str, pivot: str, undoable: str) -> Stage:
        ahead = not pivot or name < pivot
        undo = self.step(f"undo {name}") if name in undoable and ahead else None
        return Stage(
            self.step(name),
            compensate=undo,
            undo_if_failed=undo is not None,
            pivot=name == pivot,
            name=name,
        )

    def step(self, name: str) -> Callable[[Any], Any]:
        async def step(ctx: Any) -> str:
            self.did.append(name)
            await asyncio.sleep(0)
            failure = self.fails.get(name)
            if callable(failure):
                return str(await failure(ctx))
            if failure is not None:
                raise failure
            return f"{name} done"

        return step

    def compensated(self) -> list[str]:
        return [did for did in self.did if did.startswith("undo")]


def dead(outcome: Any, compensation: CompensationResult) -> ErrorEnvelope:
    assert isinstance(outcome, DeadLettered)
    assert compensation is outcome.compensation
    return outcome.failure
