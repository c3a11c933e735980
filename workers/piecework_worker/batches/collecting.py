"""One pass of a collector over a model: gather, create, ask, and bring answers back.

gathered   -> sent back, because too few came, or their job ends too soon
           -> PLANNED, in the row that names its requests; then they are gone
PLANNED    -> the provider knows a batch of this digest: CREATED
           -> it knows none, long enough: create it
CREATED    -> IN_PROGRESS: ask later; cancel it in time
           -> over: `outcomes.py` brings its answers back
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from piecework import telemetry
from piecework.domain import keys
from piecework.domain.batch import (
    DIRECT,
    MOST_MEMBERS,
    AskedRow,
    BatchPhase,
    Member,
    PlannedRow,
    RequestState,
    pack_members,
    read_content,
)
from piecework.domain.moments import iso, moment
from piecework.domain.refs import JobRef
from piecework.errors import PermanentError, StoreError
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass
from piecework.llm.batches.port import (
    BatchRow,
    BatchState,
    BatchStatus,
    RowUnreadable,
)
from piecework.resilience.batching import (
    Gathering,
    gather,
    is_too_late,
    may_create_again,
    must_leave,
    poll_after_s,
)
from piecework_worker.batches.outcomes import GONE, bring_back, in_doubt
from piecework_worker.batches.passes import (
    AT_ONCE,
    KEPT,
    SENT_IN,
    Closing,
    CollectorLostError,
    Pass,
)

#: Gathered requests that are looked at together.
BLOCK: Final = 2_000
#: Seconds until gathered requests of a paused job are looked at again.
PAUSED_S: Final = 300.0
#: The statuses in which a provider has refused a request for good.
REFUSED: Final = frozenset({400, 404, 413, 422})


@dataclass(slots=True)
class Collecting(Pass):
    """A pass: what is due of a model is done once."""

    async def pass_once(self) -> float | None:
        """Do what is due; return when something is due next; None: nothing is open.

        Raises:
            Exception: The error of a batch; the others were done.
        """
        times, failed = list[float](), list[Exception]()
        open_ = await self.batches.open(self.place)
        times += await self._gather(open_)
        left = list[PlannedRow]()
        for row in await self.batches.open(self.place):
            await self.stay()
            try:
                next_at = await self._advance(row)
            except (CollectorLostError, StoreError):
                raise
            except Exception as error:  # noqa: BLE001 -- raised at the end
                failed.append(error)
                next_at = self.rt.clock()
            if next_at is not None:
                left.append(row)
                times.append(next_at)
                for member in row.members[:1]:
                    await self.waits(row.ref(member), member.gen)
        await self.send()
        self.told = told_of(left)
        if failed:
            raise failed[0]
        return min(times, default=None)

    # The gathered requests.

    async def _gather(self, open_: Sequence[PlannedRow]) -> list[float]:
        """Send what has been gathered; return when the rest is due.

        It is read block by block, in the order of time: a worker holds the requests of
        about one batch.
        """
        times, ready, block = list[float](), list[AskedRow](), list[AskedRow]()
        planned: set[Member] | None = None
        async for row in self.batches.each_asked(self.place):
            if planned is None:
                planned = {member for each in open_ for member in each.members}
            block.append(row)
            if len(block) < BLOCK:
                continue
            ready += await self._sort(block, planned, times)
            block.clear()
            if len(ready) > MOST_MEMBERS:
                found = self._divide(ready, more=True)
                if found.next_at is not None:  # so are the others, which came later
                    return [*times, found.next_at]
                await self._send(found)
                ready = [*found.rest]
        ready += await self._sort(block, planned or set(), times)
        found = self._divide(ready)
        await self._send(found)
        return times + ([] if found.next_at is None else [found.next_at])

    def _divide(self, ready: Sequence[AskedRow], *, more: bool = False) -> Gathering:
        lane, limits = self.model.lane, self.provider.limits
        return gather(ready, lane, limits, self.rt.clock(), more=more)

    async def _send(self, found: Gathering) -> None:
        await self._return(found.direct)
        for rows in found.batches:
            asked, closed = await self.batches.still_open(rows)
            await self.batches.drop_asked(self.place, closed)
            if asked:
                await self._plan(asked)

    async def _sort(
        self, asked: Sequence[AskedRow], planned: Container[Member], times: list[float]
    ) -> list[AskedRow]:
        """Return the requests that may be sent; remove or send back the others.

        `times`: gets when those of paused jobs are looked at again. The collector that
        planned a batch may have died before it removed its requests.
        """
        now = self.rt.clock()
        ready, late = list[AskedRow](), list[AskedRow]()
        dropped, ended = list[AskedRow](), list[AskedRow]()
        for row in asked:
            if row.member in planned:
                dropped.append(row)
                continue
            job = await self.job(row.of)
            if job is None or job.status.ended or job.status not in KEPT:
                ended.append(row)
            elif row.asked_at <= self.row.direct_at:  # an operator sends it back
                late.append(row)
            elif job.status not in SENT_IN:
                times.append(now + PAUSED_S)
            elif now >= row.until or is_too_late(job.deadline, self.took, now):
                late.append(row)
            else:
                ready.append(row)
                await self.waits(row.of.chunk(row.chunk), row.gen)
        await self.batches.drop_asked(self.place, dropped)
        await self._return(ended, RequestState.OVER)  # a retry of the job asks anew
        await self._return(late)
        return ready

    async def _return(
        self, rows: Sequence[AskedRow], state: RequestState = RequestState.DIRECT
    ) -> None:
        """Let requests go direct, or end those that have no use any more."""
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            await self.close(
                [Closing(row.of.chunk(row.chunk), row.member, state) for row in some]
            )
            await self.batches.drop_asked(self.place, some)
        if rows and state is RequestState.DIRECT:
            telemetry.emit(
                self.log,
                "batch.returned",
                tenant=self.place[0],
                dependency=self.model.name,
                rows=sum(row.rows for row in rows),
            )

    async def _plan(self, rows: Sequence[AskedRow]) -> None:
        """Write a batch ahead; the next step of the pass creates it."""
        now = self.rt.clock()
        members = sorted(
            (row.member for row in rows), key=lambda m: (m.job, m.chunk, m.fence)
        )
        packed = pack_members(members)
        facts = {
            "tenant": self.place[0],
            "digest": keys.sha256("/".join(self.place).encode() + packed)[:40],
            "model": self.model.name,
            "provider": self.provider.provider,
            "rows": sum(each.rows for each in members),
            "members": packed,
            "planned_at": iso(now),
            "tried_at": iso(now),
            "until": iso(min(row.until for row in rows)),
        }
        if not await self.batches.plan(self.place, self.worker, self.fence, facts):
            raise CollectorLostError
        await self.batches.drop_asked(self.place, rows)
        await self._create(PlannedRow(facts))

    # A batch.

    async def _advance(self, row: PlannedRow) -> float | None:
        """Do what is due for a batch; return when more is; None: it has ended."""
        now = self.rt.clock()
        if row.stored_phase == BatchPhase.PLANNED:
            return await self._resolve(row)
        is_asked = bool(row.wanted) and not row.is_cancelled
        if row.next_at and moment(row.next_at) > now and not is_asked:
            return moment(row.next_at)
        return await self._ask(row, now)

    async def _create(self, row: PlannedRow) -> str:
        """Create a batch; return its id; empty: that is in doubt, or it was refused."""
        rows = 0
        with tempfile.TemporaryFile() as file:
            async for line in self._lines(row):
                file.write(line)
                rows += 1
            await self.stay()
            try:
                batch = await self.provider.create(rows_of(file), row.digest)
            except Exception as error:  # noqa: BLE001 -- told by its code
                await self._on_not_created(row, error)
                return ""
        await self._note_created(row, batch)
        return batch

    async def _lines(self, row: PlannedRow) -> AsyncIterator[bytes]:
        """Yield the rows of a batch, as a file keeps them until they are sent."""
        async for member, content in self.contents(row):
            for name, body in read_content(content, member.rows):
                yield json.dumps([name, body.decode()]).encode() + b"\n"

    async def _note_created(self, row: PlannedRow, batch: str) -> None:
        next_at = self.rt.clock() + poll_after_s(0)
        if not await self.batches.created(self.place, row, batch, next_at):
            await self._on_created_twice(row, batch)
        else:
            telemetry.emit(
                self.log,
                "batch.created",
                tenant=row.tenant,
                dependency=self.model.name,
                provider=self.provider.provider,
                batch=batch,
                rows=row.rows,
            )

    async def _on_created_twice(self, row: PlannedRow, batch: str) -> None:
        """Cancel a batch that another collector has created, too; both may be billed.

        This one was frozen just before it sent its request.
        """
        known = [each for each in await self.batches.open(self.place) if each.id]
        if any(each.digest == row.digest and each.id != batch for each in known):
            await self.batches.doubt(self.place, row)
            await self.provider.cancel(batch)

    async def _on_not_created(self, row: PlannedRow, error: Exception) -> None:
        """Keep a batch whose creation is in doubt; give up one that was refused.

        Raises:
            Exception: The error of a refused key or role.
        """
        failure = classify(error, layer="llm", now=self.rt.clock(), in_call=True)
        if failure.http_status in REFUSED:
            await self.give_up(row, failure.code)
            return
        if failure.error_class in {ErrorClass.PERMANENT, ErrorClass.POLICY}:
            raise error
        telemetry.emit(
            self.log,
            "batch.in_doubt",
            tenant=row.tenant,
            dependency=self.model.name,
            provider=self.provider.provider,
            error_code=failure.code,
        )

    async def give_up(self, row: PlannedRow, reason: str) -> None:
        """End a batch that its provider does not have: its calls go on without it."""
        direct = row.wanted == DIRECT
        state = RequestState.DIRECT if direct else RequestState.OVER
        await self.close(
            [
                Closing(row.ref(m), m, state, in_doubt(self.model, m.rows * row.doubts))
                for m in row.members
            ]
        )
        await self.batches.end(self.place, row, reason)

    async def _resolve(self, row: PlannedRow) -> float | None:
        """Find a batch whose creation is in doubt, or create it again."""
        now, exact = self.rt.clock(), self.provider.limits.finds_exactly
        planned_at, tried_at = moment(row.planned_at), moment(row.tried_at)
        found = await self.provider.find(row.digest, planned_at, row.rows)
        mine, unsure = await self._mine(row, found)
        may_create = may_create_again(tried_at, now, finds_exactly=exact)
        if mine:
            await self._note_created(row, mine)
        elif may_create and not unsure and row.wanted:
            await self.give_up(row, BatchState.CANCELLED)
            return None
        elif (
            may_create
            and not unsure
            and await self.batches.try_again(self.place, row, doubtful=not exact)
        ):
            doubts = row.doubts + (not exact)
            await self._create(PlannedRow({**row.item, "doubts": doubts}))
        return self.rt.clock() + poll_after_s(0)

    async def _mine(
        self, row: PlannedRow, found: Sequence[BatchStatus]
    ) -> tuple[str, bool]:
        """Return the id of the batch among those found; and whether one may be it.

        Where a provider takes no name, only the ids of its results tell.
        """
        if self.provider.limits.finds_exactly:
            return (found[0].id, False) if found else ("", False)
        others = {each.id for each in await self.batches.open(self.place)}
        others |= {each.id for each in await self.batches.ended(self.place, 100)}
        left = [each for each in found if each.id not in others]
        names = {name async for name in self._names(row)} if left else set[str]()
        unsure = False
        for each in left:
            if each.state is BatchState.IN_PROGRESS:
                unsure = True
                continue
            if await self._first_name(each.id) in names:
                return each.id, False
        return "", unsure

    async def _first_name(self, batch: str) -> str:
        """Return the first id in the output of a batch; empty: it tells none."""
        try:
            async for outcome in self.provider.outcomes(batch):
                if not isinstance(outcome, RowUnreadable):
                    return outcome.custom_id
        except PermanentError as error:
            if error.code != GONE:
                raise
        return ""

    async def _names(self, row: PlannedRow) -> AsyncIterator[str]:
        async for member, content in self.contents(row):
            for name, _ in read_content(content, member.rows):
                yield name

    async def _ask(self, row: PlannedRow, now: float) -> float | None:
        """Ask for a batch; bring its answers back once it is over."""
        status = await self.provider.status(row.id)
        if status.state is not BatchState.IN_PROGRESS:
            await bring_back(self, row, status)
            # One that was refused, or that an operator cut short, tells of no other.
            if status.state is not BatchState.FAILED and not row.wanted:
                seconds = (status.ended_at or now) - moment(row.planned_at)
                self.took.append(max(seconds, 1.0))
            return None
        facts: dict[str, Any] = {
            "polls": row.polls + 1,
            "answered": status.answered,
            "failed": status.failed,
        }
        if not row.is_cancelled and await self._must_cancel(row, now):
            await self.provider.cancel(row.id)
            facts["cancelled"] = True
        soon, until = now + poll_after_s(0), moment(row.until)
        next_at = min(now + poll_after_s(row.polls + 1), max(until, soon))
        if "cancelled" in facts or row.is_cancelled:
            next_at = soon
        await self.batches.note(self.place, row, next_at, **facts)
        return next_at

    async def _must_cancel(self, row: PlannedRow, now: float) -> bool:
        """Return whether a batch is cancelled: it has no time, or no use any more."""
        if row.wanted or now >= moment(row.until):
            return True
        refs = {JobRef(row.tenant, each.job) for each in row.members}
        jobs = [await self.job(ref) for ref in refs]
        live = [job for job in jobs if job is not None and job.status in KEPT]
        planned_at = moment(row.planned_at)
        return not live or any(
            must_leave(job.deadline, planned_at, self.took, now) for job in live
        )


def told_of(left: Sequence[PlannedRow]) -> dict[str, Any]:
    """Return what a pass tells of the batches that it has left open."""
    return {
        "open_batches": len(left),
        "open_rows": sum(row.rows for row in left),
        "open_since": min((row.planned_at for row in left), default=""),
        "error": "",
    }


def rows_of(file: IO[bytes]) -> Iterator[BatchRow]:
    """Yield the rows of a file."""
    file.seek(0)
    for line in file:
        name, body = json.loads(line)
        yield BatchRow(name, json.loads(body))
