"""The records of a run in memory, in place of the tables."""

from __future__ import annotations

import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from piecework.answers import encode_answer
from piecework.calls.unstable import KeyWatch, Site
from piecework.domain.child import ChildStart, lineage_below
from piecework.domain.effect import Effect
from piecework.domain.happened import EffectEnd, KnownEffect
from piecework.domain.map_rows import MapRows, RowPipeline
from piecework.domain.outcome import Mapped
from piecework.domain.protocols import (
    AlreadyDone,
    Called,
    ChildEnd,
    MissingChunk,
    Proceed,
    RowFailure,
    StoredResult,
    Unknown,
    WaitRequestedError,
    cannot_map,
)
from piecework.domain.question import Question, QuestionRow, QuestionState
from piecework.errors import ErrorEnvelope
from piecework.testing.faults import ChunkFaults


@dataclass(slots=True)
class MemoryCheckpoints:
    """A chunk's progress, kept over its attempts."""

    names: Sequence[str]
    faults: ChunkFaults = field(default_factory=ChunkFaults)
    completed: dict[str, str] = field(default_factory=dict)
    compensated: dict[str, ErrorEnvelope | None] = field(default_factory=dict)
    failure: ErrorEnvelope | None = None
    reached_stage: str = ""
    cursor: str = ""
    compensation_gen: int = 1
    compensable: frozenset[str] = frozenset()

    async def complete(self, index: int, value: str, following: str) -> None:
        """Keep a stage's value and enter the following stage."""
        await self.faults.kill_if_due("after stage", self.names[index])
        self.completed[self.names[index]] = value
        self.cursor = following

    async def begin_compensation(self, failure: ErrorEnvelope, stage: str) -> None:
        """Keep why the chunk is compensating."""
        self.failure = failure
        self.cursor = stage

    async def record_compensation(
        self, stage: str, failure: ErrorEnvelope | None
    ) -> None:
        """Keep that a stage was compensated."""
        self.compensated[stage] = failure


@dataclass(slots=True)
class MemoryJournal:
    """The remembered calls and effects of a chunk."""

    calls: dict[str, str] = field(default_factory=dict)
    effects: dict[str, str | None] = field(default_factory=dict)
    called: dict[str, Called] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    #: What was called, and the digests of its arguments, by the key of the call.
    sites: dict[str, tuple[Site, Mapping[str, str]]] = field(default_factory=dict)

    def recall(self, key: str) -> str | None:
        """Return a remembered result."""
        return self.calls.get(key)

    async def record(
        self,
        key: str,
        value: str,
        site: str = "",
        digests: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Remember a result."""
        self.calls[key] = value
        if site:
            self.sites[key] = Site(*json.loads(site)), digests

    def watch(self, completed: Collection[str]) -> KeyWatch:
        """Return what the next attempt should ask for in stages that are not over."""
        watch = KeyWatch()
        for key, (site, digests) in self.sites.items():
            if site.stage not in completed:
                watch.load(key, site, digests)
        for key, called in self.called.items():
            site = Site(self.stages[key], called.dependency, called.function)
            if key in self.effects and site.stage not in completed:
                watch.load(key, site, {})
        return watch

    async def begin(
        self,
        key: str,
        stage: str,
        effect: Effect,
        max_duration_s: float,
        called: Called | None = None,
    ) -> Proceed | AlreadyDone | Unknown:
        """Write an intent, or return the state of an earlier one."""
        del max_duration_s
        known = self.effects.get(key)
        if known is not None:
            return AlreadyDone(known)
        if key in self.effects and effect in {Effect.NON_IDEMPOTENT, Effect.PURE}:
            return Unknown()
        self.effects[key], self.stages[key] = None, stage
        if called is not None:
            self.called[key] = called
        return Proceed(gen=1)

    async def known_effects(self, stage: str) -> list[KnownEffect]:
        """Return all effects, with their answers."""
        del stage
        done, doubt = EffectEnd.HAPPENED, EffectEnd.IN_DOUBT
        return [
            KnownEffect(
                self.stages[key],
                called.function,
                called.arguments,
                doubt if answer is None else done,
                answer,
            )
            for key, answer in self.effects.items()
            for called in [self.called.get(key, Called("", ""))]
        ]

    def stages_with_effects(self) -> set[str]:
        """Return the stages that have effects."""
        return {self.stages[key] for key in self.effects}

    def may_have_happened(self, key: str) -> bool:
        """Return whether an effect happened, or may have happened."""
        return key in self.effects

    def hold(self, key: str, value: str) -> None:
        """Do nothing: `finish` cannot fail."""

    async def mark_counted(self, key: str) -> None:
        """Do nothing: no operator resolves an effect of a run in memory."""

    async def finish(self, key: str, value: str) -> None:
        """Record an effect's answer."""
        self.effects[key] = value

    async def mark_refused(self, key: str, *, sent: bool = True) -> None:
        """Forget an intent that came to nothing."""
        del sent
        self.effects.pop(key, None)

    async def mark_unknown(self, key: str, schema: str) -> None:
        """Keep the intent: it shows that the effect is in doubt."""


#: The answers of a run by the names of its questions. Each is a value, or a function of
#: what the stage asks. Without one, or with None, the time of the question ends.
Answers: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class MemoryQuestions:
    """The questions of a chunk, and the answers of the test."""

    answers: Answers
    rows: dict[tuple[str, str], QuestionRow] = field(default_factory=dict)

    def recall(self, stage: str, question: str) -> QuestionRow | None:
        """Return a question that was asked."""
        return self.rows.get((stage, question))

    async def close(self, row: QuestionRow) -> QuestionRow:
        """End a question without an answer."""
        over = QuestionState.EXPIRED
        state = QuestionState.DEFAULTED if row.has_default else over
        return self._keep(row, state=state)

    def ask(self, question: Question) -> bool:
        """Ask; return whether the test has an answer."""
        row = self._keep(QuestionRow({**(question.facts or {}), "gen": 1}))
        value = self.answers.get(row.name.partition("#")[0])
        if callable(value):
            value = value(json.loads(row.ask))
        if value is None:
            return False
        answer = encode_answer(row.model, row.schema, value)
        self._keep(row, state=QuestionState.ANSWERED, answer=answer)
        return True

    def _keep(self, row: QuestionRow, **facts: Any) -> QuestionRow:
        found = QuestionRow({**row.item, **facts})
        self.rows[found.stage, found.name] = found
        return found


@dataclass(slots=True)
class MemoryChildren:
    """The children of a chunk: each runs once, when the chunk waits for it.

    Attributes:
        start: Runs the rows of a child to their end.
        pipeline, lineage: That of the chunk, and those above it.
    """

    start: Callable[[str, MapRows], Awaitable[ChildEnd]]
    pipeline: str
    lineage: Sequence[str]
    asked: dict[str, MapRows] = field(default_factory=dict)
    ended: dict[str, ChildEnd] = field(default_factory=dict)

    def pipeline_of(self, name: str) -> RowPipeline[Any]:
        """Refuse: no stage of a run in memory has a process of its own."""
        raise cannot_map(name)

    async def find(self, job: str, stage: str, rows: MapRows) -> ChildEnd:
        """Return the end of a child, or wait for it.

        Raises:
            WaitRequestedError: It has not run yet.
            UsageError: `pipeline.map.cycle`, `pipeline.map.too_deep`.
        """
        if (end := self.ended.get(job)) is not None:
            return end
        lineage_below(self.pipeline, self.lineage, rows.pipeline.name)
        if job not in self.asked:
            self.asked[job] = await rows.copy()
        start = ChildStart(job, rows.pipeline.name, stage, rows.count)
        raise WaitRequestedError(Mapped(start))

    async def run(self, job: str) -> None:
        """Run the child that the chunk waits for."""
        rows = self.asked.pop(job)
        try:
            self.ended[job] = await self.start(job, rows)
        finally:
            rows.close()


@dataclass(frozen=True, slots=True)
class MemoryChildResults:
    """What the rows of a child have become."""

    stored: Sequence[StoredResult]
    missing: Sequence[RowFailure]

    async def results(self) -> AsyncIterator[StoredResult]:
        """Yield each result."""
        for result in self.stored:
            yield result

    async def failures(self) -> AsyncIterator[RowFailure]:
        """Yield each row without a result."""
        for failure in self.missing:
            yield failure


@dataclass(slots=True)
class MemoryJobResults:
    """The results of a run, for its join."""

    stored: list[StoredResult]
    missing: list[MissingChunk]
    artifacts: dict[str, bytes]

    async def results(self) -> AsyncIterator[StoredResult]:
        """Yield each result."""
        for result in self.stored:
            yield result

    async def write(self, name: str, content: bytes, media_type: str) -> str:
        """Keep an artifact."""
        del media_type
        self.artifacts[name] = content
        return name
