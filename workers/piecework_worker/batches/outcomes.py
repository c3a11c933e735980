"""Bring the answers of a batch back to the chunks that asked.

The output is read once, row by row. Each answer is written once for its call; a request
is closed when the last of its rows has come, or at the end of the output. A killed
collector is followed by one that reads the output again.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final

from piecework import telemetry
from piecework.calls.usage import add_usage, validated
from piecework.dependency import Dependency, Usage
from piecework.domain import keys
from piecework.domain.batch import (
    DIRECT,
    ID_LINE,
    Member,
    PlannedRow,
    RequestState,
)
from piecework.domain.call_usage import CallUsage
from piecework.domain.moments import moment
from piecework.errors import PermanentError, StageError
from piecework.llm.batched import answer_text, failed_row
from piecework.llm.batches.port import (
    BatchState,
    BatchStatus,
    RowAnswered,
    RowExpired,
    RowFailed,
    RowOutcome,
    RowUnreadable,
)
from piecework.llm.request import ModelAnswer
from piecework.resilience.lanes import BATCH
from piecework_worker.batches.passes import Closing, Pass

#: The code of a batch whose answers its provider has deleted.
GONE: Final = "llm.batch.results_gone"
#: Outcomes that are handled together.
BLOCK: Final = 64
#: Lines without an outcome, and are kept.
MOST_KEPT: Final = 1_000


@dataclass(slots=True)
class Open:
    """A request whose rows come in.

    Attributes:
        left: The custom ids without an outcome.
    """

    member: Member
    left: set[str]
    usage: CallUsage = field(default_factory=CallUsage)
    failed: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> tuple[CallUsage, dict[str, Any]]:
        """What its answers cost, and the errors of its rows."""
        return self.usage, self.failed


def in_doubt(model: Dependency, rows: int) -> CallUsage:
    """Return the usage of rows whose answers are not known, but possibly billed."""
    found = CallUsage()
    if rows:
        line = f"{model.model or model.name} {BATCH}"
        found.add("possibly_paid", line, [rows])
    return found


async def bring_back(collecting: Pass, row: PlannedRow, status: BatchStatus) -> None:
    """Store the outcomes of a batch that is over, wake its chunks, and end it."""
    await BringBack(collecting, row, status).run()


@dataclass(slots=True)
class BringBack:
    """The outcomes of one batch, as they come in."""

    collecting: Pass
    row: PlannedRow
    status: BatchStatus
    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    _open: dict[str, Open] = field(default_factory=dict)

    async def run(self) -> None:
        """Read the output, then close what is left."""
        requests = await self._requests()
        gone: StageError | None = None
        if self.status.state is BatchState.FAILED:
            for name, error in self.status.refused.items():
                await self._take([RowFailed(name, error)])
        else:
            try:
                await self._read()
            except PermanentError as error:
                if error.code != GONE:
                    raise
                gone = error
        left = [each for each in requests if each.left]
        if gone is not None:
            for each in left:
                each.failed |= dict.fromkeys(each.left, failed_row(gone))
                self._doubt(each, len(each.left))
        for each in left:
            self._doubt(each, len(each.left) * self.row.doubts)
        await self._close(left)
        await self._keep_unreadable()
        collecting, row = self.collecting, self.row
        answered, failed = self.counts["answered"], self.counts["failed"]
        unreadable = self.counts["unreadable"]
        reason = GONE if gone is not None else str(self.status.state)
        ended = await collecting.batches.end(
            collecting.place,
            row,
            reason,
            answered=answered,
            failed=failed,
            unreadable=unreadable,
        )
        if ended:
            telemetry.emit(
                collecting.log,
                "batch.ended",
                tenant=row.tenant,
                dependency=collecting.model.name,
                provider=collecting.provider.provider,
                batch=row.id,
                rows=row.rows,
                answered=answered,
                failed=failed,
                expired=row.rows - answered - failed,
                unreadable=unreadable,
                reason=reason,
                duration_s=round(collecting.rt.clock() - moment(row.planned_at)),
            )

    async def _requests(self) -> list[Open]:
        """Return the requests of the batch; note by custom id which has a call."""
        found = list[Open]()
        contents = self.collecting.contents(self.row, lambda m: m.rows * ID_LINE)
        async for member, content in contents:
            names = content.decode().split()
            found.append(Open(member, set(names)))
            self._open |= dict.fromkeys(names, found[-1])
        return found

    async def _read(self) -> None:
        block = list[RowOutcome]()
        async for outcome in self.collecting.provider.outcomes(self.row.id):
            block.append(outcome)
            if len(block) >= BLOCK:
                await self._take(block)
                block.clear()
        await self._take(block)

    async def _take(self, outcomes: list[RowOutcome]) -> None:
        """Store some outcomes; close the requests that they complete."""
        await self.collecting.stay()
        writes, done = [], list[Open]()
        for outcome in outcomes:
            if isinstance(outcome, RowUnreadable):
                self._quarantine(outcome.line.decode(errors="replace"), outcome.why)
                continue
            name = outcome.custom_id
            request = self._open.get(name)
            if request is None:
                self._quarantine(name, "its custom_id is unknown, or came before")
                continue
            if isinstance(outcome, RowExpired):
                continue  # as absent: a further line may have its answer
            del self._open[name]
            match outcome:
                case RowAnswered(answer=answer):
                    self.counts["answered"] += 1
                    writes.append(self._answer(request, name, answer))
                case RowFailed(error=error):
                    self.counts["failed"] += 1
                    self._fail(request, name, error)
            request.left.discard(name)
            done += [] if request.left else [request]
        await asyncio.gather(*writes)
        await self._close(done)

    async def _answer(self, request: Open, name: str, answer: ModelAnswer) -> None:
        """Store an answer, and count what it cost."""
        collecting, member = self.collecting, request.member
        answer = replace(answer, service_tier=BATCH)
        self._count(request, answer)
        ref, batch = self.row.ref(member), self.row.id
        text = answer_text(answer)
        await collecting.batches.answer(ref, member.fence, name, text, batch)

    def _fail(self, request: Open, name: str, error: StageError) -> None:
        """Note the error of a row, and what its answer cost, if it has one."""
        answer = error.facts.get("answer")
        if isinstance(answer, ModelAnswer):
            self._count(request, replace(answer, service_tier=BATCH))
        else:
            self._doubt(request, self.row.doubts)
        request.failed[name] = failed_row(error)

    def _count(self, request: Open, answer: ModelAnswer) -> None:
        model = self.collecting.model
        usage = Usage()
        if model.usage is not None:
            try:
                usage = validated(model.usage(answer))
            except (TypeError, ValueError):
                usage = Usage(answer.tokens_in, answer.tokens_out)
        add_usage(request.usage, model.name, usage)
        for _ in range(self.row.doubts):  # the other batch has answered it, too
            add_usage(request.usage, model.name, usage, ["possibly_paid"])

    def _doubt(self, request: Open, rows: int) -> None:
        """Count rows whose answers are not known, but possibly billed."""
        request.usage.merge(in_doubt(self.collecting.model, rows))

    async def _close(self, requests: list[Open]) -> None:
        """Close requests, and wake their chunks."""
        direct = self.row.wanted == DIRECT
        state = RequestState.DIRECT if direct else RequestState.OVER
        await self.collecting.close(
            [
                Closing(self.row.ref(each.member), each.member, state, *each.outcome)
                for each in requests
            ]
        )

    def _quarantine(self, text: str, why: str) -> None:
        self.counts["unreadable"] += 1
        if len(self.unreadable) < MOST_KEPT:
            self.unreadable.append(json.dumps({"why": why, "line": text}))

    async def _keep_unreadable(self) -> None:
        """Keep the lines without an outcome, for people."""
        if self.unreadable:
            job = self.row.members[0].job
            key = keys.unreadable_key(self.row.tenant, job, self.row.digest)
            content = "".join(f"{line}\n" for line in self.unreadable).encode()
            await self.collecting.rt.objects.put(key, content, "application/jsonl")
