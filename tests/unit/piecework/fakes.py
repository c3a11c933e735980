"""What the engine is given in place of the world: nothing sleeps, nothing is random."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

from pydantic import BaseModel

from piecework.calls.admission import Admission
from piecework.calls.attempts import Attempts
from piecework.calls.call import CallScope
from piecework.calls.caller import Caller
from piecework.calls.equal_calls import EqualCalls
from piecework.context import Context
from piecework.domain.protocols import Proceed
from piecework.errors import ErrorEnvelope
from piecework.errors.codes import ErrorClass
from piecework.pipelines import Pipeline
from piecework.resilience.retry import RetryTime
from piecework.saga import engine
from piecework.saga.recovery import RecoveryLimits
from piecework.standalone import MemoryIdempotency
from piecework.store.backlogs import Backlog
from piecework.testing.memory_records import MemoryCheckpoints, MemoryJournal

NOW = 1_700_000_000.0
SCOPE = CallScope("acme", "job", 7, "analyse", "review")


class Clause(BaseModel):
    """A payload."""

    text: str = "text"


class Log:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def debug(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))

    info = warning = error = exception = debug

    def bind(self, **_: Any) -> Log:
        return self

    def names(self) -> list[str]:
        return [event for event, _ in self.said]


class Highest(Random):
    """Always draws the highest number."""

    def uniform(self, a: float, b: float) -> float:
        del a
        return b


class NoBacklogs:
    """Backlogs of a deployment without large jobs."""

    async def of_queue(self, _: str) -> AsyncIterator[Backlog]:
        for backlog in ():
            yield backlog


class Lowest(Random):
    """Always draws the lowest number, so that a jittered wait has no length."""

    def uniform(self, a: float, b: float) -> float:
        del b
        return a


def envelope(
    error_class: ErrorClass = ErrorClass.PERMANENT, **facts: Any
) -> ErrorEnvelope:
    facts = {"code": "runtime.stage.permanent", "message": "it failed", **facts}
    return ErrorEnvelope(error_class=error_class, **facts)


class Killed(GeneratorExit):
    """The worker dies here: Python closes the coroutine, and nothing catches that."""


@dataclass
class Diary(MemoryJournal):
    """A journal and ledger that keeps what was asked of it."""

    said: list[str] = field(default_factory=list)
    in_doubt_for: float = 0.0
    is_counted: bool = False
    held: dict[str, str] = field(default_factory=dict)

    async def begin(
        self, key: str, stage: str, effect: Any, max_duration_s: float, *more: Any
    ) -> Any:
        self.said.append("begin")
        facts = (stage, effect, max_duration_s, *more)
        begun = await MemoryJournal.begin(self, key, *facts)
        if isinstance(begun, Proceed):
            seconds, is_counted = self.in_doubt_for, self.is_counted
            return replace(begun, seconds=seconds, is_counted=is_counted)
        return begun

    def hold(self, key: str, value: str) -> None:
        self.held[key] = value

    async def mark_counted(self, key: str) -> None:
        self.said.append("counted")

    async def finish(self, key: str, value: str) -> None:
        self.said.append("finish")
        await MemoryJournal.finish(self, key, value)

    async def mark_refused(self, key: str, *, sent: bool = True) -> None:
        self.said.append("refuse" if sent else "not sent")
        await MemoryJournal.mark_refused(self, key)

    async def mark_unknown(self, key: str, schema: str) -> None:
        self.said.append("doubt")
        await MemoryJournal.mark_unknown(self, key, schema)


def caller(journal: MemoryJournal | None = None, **facts: Any) -> Caller:
    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    diary = Diary() if journal is None else journal
    given: dict[str, Any] = {
        "retry_time": RetryTime(60.0),
        "rng": Lowest(),
        "clock": lambda: NOW,
        "log": Log(),
        "sleep": no_wait,
    }
    own = {name: facts.pop(name) for name in ("gen", "drains_effects") if name in facts}
    names = {each.name for each in fields(Admission)} - {"clock", "progress"}
    limits = {name: facts.pop(name) for name in names & facts.keys()}
    equal = facts.pop("operations", None) or MemoryIdempotency(clock=given["clock"])
    given |= facts
    shared = {name: given[name] for name in ("clock", "progress") if name in given}
    limits = {"slots": asyncio.Semaphore(64)} | shared | limits
    attempts = Attempts(admission=Admission(**limits), **given)
    return Caller(
        **{"journal": diary, "ledger": diary, "gen": 1} | own,
        attempts=attempts,
        equal_calls=EqualCalls(attempts, equal),
    )


def context(pipeline: Pipeline, *, attempt: int = 1, **facts: Any) -> Context[Any]:
    given: dict[str, Any] = {
        "payload": Clause(),
        "tenant": "acme",
        "job": "job",
        "chunk": 7,
        "caller": caller(),
        "log": Log(),
    }
    declared = {"pipeline": pipeline.name, "stages": pipeline.names}
    return Context(**declared, attempt=attempt, **(given | facts))


def checkpoints_of(pipeline: Pipeline, **facts: Any) -> MemoryCheckpoints:
    return MemoryCheckpoints([stage.name for stage in pipeline.stages], **facts)


def limits(max_attempts: int = 3) -> RecoveryLimits:
    return RecoveryLimits(max_attempts, lambda: NOW, Highest())


async def run(
    pipeline: Pipeline,
    checkpoints: MemoryCheckpoints | None = None,
    *,
    attempt: int = 1,
    max_attempts: int = 3,
    ctx: Context[Any] | None = None,
) -> Any:
    """Carry one claim's run of a chunk through."""
    kept = checkpoints_of(pipeline) if checkpoints is None else checkpoints
    ctx = context(pipeline, attempt=attempt) if ctx is None else ctx
    return await engine.run(pipeline, ctx, kept, limits(max_attempts))


def names(stages: Sequence[Any]) -> list[str]:
    return [stage.name for stage in stages]
