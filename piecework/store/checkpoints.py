"""The checkpoints of a claimed chunk: one write under the fence for each stage.

The chunk's row names the stages that have completed: one that it does not name never
ran. So a chunk goes on with whatever stages its pipeline has now, in whatever order.
`stage` on that row is the cursor, the stage that the chunk is at. One update moves it,
and names the stage that it leaves. The entry of that stage has its start and its end,
its worker and its attempt, and its value unless that is `null`.

If the chunk's row would grow above a write unit, the entry only has the fence, and the
code version. A row of this stage and this claim has the rest. It is written first, and
without a check: what the chunk's row does not name does not count, and no other claim
writes this row.

An entry counts until its stage, or one that completed before it, was compensated. Then
the stage runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.aws.objects import Objects
from piecework.domain import keys, records
from piecework.domain.batch import AnswerRow, RequestRow
from piecework.domain.chunk import Chunk
from piecework.domain.claim import Claim
from piecework.domain.moments import iso
from piecework.domain.protocols import (
    CancelRequest,
    CancelRequestedError,
    ClaimLostError,
)
from piecework.domain.question import QuestionRow
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import (
    UNIT_BYTES,
    CallsRow,
    CompensatedRow,
    CompensationRow,
    EffectRow,
    ErrorRow,
    StageRow,
    item_bytes,
)
from piecework.errors import PermanentError
from piecework.store.cancellation import COMPENSATING, compensation_put
from piecework.store.claims import NOT_CANCELLED, OWNED, ownership_values
from piecework.store.effects import EffectLedger
from piecework.store.results import NULL
from piecework.store.table import Item, ItemWrite, Refused, Table, Written

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope
    from piecework.pipelines import Pipeline

#: DynamoDB accepts 100 writes in a transaction. One checks the chunk, and one stores
#: the compensated stage.
EFFECTS_AT_ONCE = 98
#: A late copy of an earlier checkpoint would set the cursor back. The cursor may have
#: returned to a stage, but not at that time: code with other stages moves it so.
AT_STAGE = "stage = :cursor AND started_at = :since"


@dataclass(slots=True)
class ChunkCheckpoints:
    """The checkpoints of one claim.

    Attributes:
        shape: The shape of the pipeline as text; empty: that of the job.
        cancel: The cancel request that refused a checkpoint, if any.
    """

    table: Table
    objects: Objects
    claim: Claim
    pipeline: Pipeline
    ledger: EffectLedger
    clock: Callable[[], float]
    shape: str = ""
    failure: ErrorEnvelope | None = None
    reached_stage: str = ""
    cancel: CancelRequest | None = None
    #: When the present stage started; empty: with the claim.
    _started_at: str = ""
    _completed: dict[str, str] = field(default_factory=dict)
    _rows: dict[str, StageRow] = field(default_factory=dict)
    #: The stages that the chunk's row names, as this claim has left them.
    _entries: dict[str, Any] = field(default_factory=dict)
    #: The stage in the chunk's row; empty: as the claim has found it.
    _cursor: str = ""
    _compensated: dict[str, ErrorEnvelope | None] = field(default_factory=dict)
    _calls_gen: int | None = None

    @property
    def prefix(self) -> str:
        """The prefix of the job's object keys."""
        return keys.object_prefix(self.claim.ref.tenant, self.claim.ref.job)

    @property
    def completed(self) -> Mapping[str, str]:
        """The JSON value of each complete stage; empty: it could not be read."""
        return self._completed

    @property
    def compensable(self) -> set[str]:
        """The stages that earlier claims completed, and that had a compensation."""
        return {name for name, row in self._rows.items() if row.is_compensable}

    @property
    def shapes(self) -> set[str]:
        """The shapes besides that of the job whose workers completed a stage."""
        return {row.shape for row in self._rows.values() if row.shape}

    @property
    def lost_in_stage(self) -> int:
        """How many claims of the chunk were lost since its last stage completed."""
        done = max((row.finished_at for row in self._rows.values()), default="")
        ends = (e for e in self.claim.chunk.history if e.get("end") == "lost")
        return sum(end.get("to", "") > done for end in ends)

    @property
    def cursor(self) -> str:
        """The stage in the chunk's row."""
        return self._cursor or self.claim.chunk.stage

    @property
    def compensated(self) -> Mapping[str, ErrorEnvelope | None]:
        """The compensated stages, each with the error of its compensation, if any."""
        return self._compensated

    @property
    def compensation_gen(self) -> int:
        """The generation in the keys of the calls of the compensation."""
        return self._calls_gen or self.claim.gen

    async def load(self, work: Work) -> None:
        """Load the checkpoints of earlier claims.

        Raises:
            PermanentError: `runtime.stage.not_found`: the pipeline no longer has the
                chunk's current stage.
        """
        self._entries = dict(work.entries)
        self._completed = dict.fromkeys(self._entries, "")  # also if one is unreadable
        self.reached_stage = self.cursor
        began = work.compensation_in(self.claim.gen)
        if began is not None:
            self.failure, self._calls_gen = began.cause, began.calls_gen
        self._compensated = {
            row.stage: row.failure for row in work.compensated_in(self.claim.gen)
        }
        self._rows = work.complete_stages(self.compensation_gen)
        self._completed = dict.fromkeys(self._rows, "")
        if self.cursor not in [stage.name for stage in self.pipeline.stages]:
            name = self.pipeline.name
            message = f"Pipeline {name!r} has no stage {self.cursor!r} any more."
            raise PermanentError(message, code="runtime.stage.not_found")
        for name, row in self._rows.items():
            self._completed[name] = (
                await self.objects.get_value(row, self.prefix)
                if row.has_value
                else NULL
            )

    async def complete(self, index: int, value: str, following: str) -> None:
        """Checkpoint a stage's value and enter the following stage, in one write.

        Raises:
            CancelRequestedError: The job was cancelled; no further stage may start.
            ClaimLostError: Another claim owns the chunk now.
        """
        stages, now = await self.with_stage(index, value), iso(self.clock())
        noted, used = self.ledger.usage.noted, self._unstored_usage()
        step = self._on_chunk(
            "Update",
            condition=self._may_go_on(index),
            update="SET stage = :following, started_at = :now, stages = :stages"
            + (", stages_usage = :used" if used else ""),
            values={
                "cursor": self.cursor,
                "since": self._started_at or self.claim.chunk.started_at,
                "following": following,
                "now": now,
                "stages": stages,
                **({"used": used} if used else {}),
            },
        )
        reply = await self.table.update(step, returning="NONE")
        if isinstance(reply, Refused):
            self._explain(reply, following)
        self.ledger.usage.stored = noted
        self._entries = stages
        self._completed[self.pipeline.stages[index].name] = value
        self._cursor, self._started_at = following, now

    def _unstored_usage(self) -> dict[str, Any] | None:
        """Return `stages_usage` for the chunk's row; None: it stays as it is.

        No later claim makes the calls of this stage again. So if this claim is lost
        before its journal is written, only this write can tell what they used.
        """
        usage, claim = self.ledger.usage, self.claim
        if usage.noted == usage.stored:
            return None
        lost = {
            fence: used
            for fence, used in claim.chunk.stages_usage.items()
            if int(fence) in claim.chunk.lost_fences
        }
        return {**lost, str(claim.fence): usage.pure.item}

    def _may_go_on(self, index: int) -> str:
        """Return the condition of leaving a stage.

        A cancel stops a chunk before its pivot; after the pivot it only goes forward.
        """
        pivot = self.pipeline.pivot_index
        if index >= pivot or self.pipeline.pivot_name in self._completed:
            return f"{OWNED} AND {AT_STAGE}"
        return f"{OWNED} AND {AT_STAGE} AND {NOT_CANCELLED}"

    def _explain(self, refused: Refused, following: str) -> None:
        item = refused.item or {}
        if item.get("claim_token") != self.claim.token:
            raise ClaimLostError
        if item.get("stage") == following != self.cursor:
            return  # our first copy was applied, and its answer was lost
        self.cancel = CancelRequest.read(item)
        if self.cancel is not None:
            raise CancelRequestedError
        raise ClaimLostError

    async def with_stage(self, index: int, value: str) -> dict[str, Any]:
        """Return the stages that the chunk's row names, together with this one.

        What does not fit into that row is written now.
        """
        name, claim = self.pipeline.stages[index].name, self.claim
        facts = await self._facts_of(index, value)
        entries = {**self._entries, name: facts}
        if item_bytes({**claim.chunk.item, "stages": entries}) > UNIT_BYTES:
            sk = keys.stage_sk(claim.ref.chunk, name, claim.fence)
            row = {"stage": name, **facts, "expires_at": claim.expires_at}
            write = self.table.item_write("Put", claim.ref.pk, sk, item=row)
            await self.table.put(write)
            entries[name] = {
                fact: facts[fact] for fact in ("fence", "code_version") if fact in facts
            }
        self._rows[name] = StageRow({"stage": name, **facts})
        return entries

    async def result_put(self, value: str) -> ItemWrite:
        """Return the write that stores a large result, in the end's transaction."""
        ref, index = self.claim.ref, self.pipeline.result_index
        name = self.pipeline.stages[index].name
        row = self._rows.get(name)
        if row is None:
            row = StageRow({"stage": name, **await self._facts_of(index, value)})
        item = row.pick(row.item.keys() - {"pk", "sk", "v"})
        item["label"] = self.claim.chunk.label or None
        item["expires_at"] = self.claim.expires_at
        return self.table.item_write(
            "Put", ref.pk, keys.result_sk(ref.chunk), item=item
        )

    async def _facts_of(self, index: int, value: str) -> dict[str, Any]:
        """Return what is known of a stage that has completed, with its value."""
        stage, claim = self.pipeline.stages[index], self.claim
        ref = claim.ref
        at = keys.stage_value_key(
            ref.tenant, ref.job, ref.chunk, claim.gen, claim.fence, stage.name
        )
        stored = await self.objects.put_value(value, at) if value != NULL else {}
        facts = {
            "finished_at": iso(self.clock()),
            "gen": claim.gen,
            "fence": claim.fence,
            "started_at": self._started_at or claim.chunk.claimed_at or None,
            "worker": claim.worker,
            "code_version": claim.code_version or None,
            "attempt": claim.attempt,
            "number": self._number_of(stage.name),
            "compensable": True if stage.compensate else None,
            "shape": self.shape or None,
            **stored,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}

    def _number_of(self, stage: str) -> int:
        """Return the number of a stage: its row's, or that of the next one."""
        row = self._rows.get(stage)
        if row is not None and row.number:
            return row.number
        names = [*self._completed]
        return 1 + (names.index(stage) if stage in names else len(names))

    async def begin_compensation(self, failure: ErrorEnvelope, stage: str) -> None:
        """Record that this claim and all later ones compensate the chunk.

        Raises:
            ClaimLostError: Another claim owns the chunk now.
        """
        ref = self.claim.ref
        check = self._on_chunk(
            "Update",
            condition=OWNED,
            update="SET direction = :back, error_code = :code",
            values={"back": COMPENSATING, "code": failure.code},
        )
        row = compensation_put(
            self.table, ref, self.claim.gen, stage, failure, self.claim.expires_at
        )
        await self._write(check, row)
        self.failure = failure

    async def record_compensation(
        self, stage: str, failure: ErrorEnvelope | None
    ) -> None:
        """Record that a stage was compensated, or the error of its compensation.

        Raises:
            ClaimLostError: Another claim owns the chunk now.
        """
        ref = self.claim.ref
        check = self._on_chunk("ConditionCheck", condition=OWNED, values={})
        sk = keys.compensated_sk(ref.chunk, self.claim.gen, stage)
        error = failure.model_dump_json(exclude_none=True) if failure else None
        item = {
            "stage": stage,
            "error": error,
            "gen": self.claim.gen,
            "finished_at": iso(self.clock()),
            "number": self._number_of(stage) if stage in self._completed else None,
            "expires_at": self.claim.expires_at,
        }
        effects = [] if failure else self.ledger.compensation_updates(stage)
        while len(effects) > EFFECTS_AT_ONCE:
            some, effects = effects[:EFFECTS_AT_ONCE], effects[EFFECTS_AT_ONCE:]
            await self._write(check, *some)
        put = self.table.item_write("Put", ref.pk, sk, item=item)
        await self._write(check, put, *effects)
        self._compensated[stage] = failure

    def _on_chunk(
        self, kind: str, *, values: dict[str, Any], **parts: str
    ) -> ItemWrite:
        ref = self.claim.ref
        return self.table.item_write(
            kind,
            ref.pk,
            ref.sk,
            values={**ownership_values(self.claim), **values},
            **parts,
        )

    async def _write(self, *writes: ItemWrite) -> None:
        if not isinstance(await self.table.transact(writes), Written):
            raise ClaimLostError


# ── the rows that earlier claims wrote ──────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Work:
    """The rows of a chunk, by the last part of their sort key.

    Attributes:
        chunk: The chunk, which names its completed stages; None: it does not exist.
    """

    rows: dict[str, Item]
    chunk: Chunk | None

    @property
    def entries(self) -> Mapping[str, Mapping[str, Any]]:
        """The stages that the chunk's row names."""
        return {} if self.chunk is None else self.chunk.stages

    @property
    def stages(self) -> list[StageRow]:
        """The stages that have completed; a row that no entry names does not count.

        Raises:
            PermanentError: `runtime.record.unreadable`, also if a named row is gone.
        """
        return [self._stage(name, entry) for name, entry in self.entries.items()]

    def _stage(self, name: str, entry: Mapping[str, Any]) -> StageRow:
        if "finished_at" in entry:
            return StageRow({"stage": name, **entry})
        fence = records.read_int(entry, "fence", StageRow.WHAT)
        row = self.rows.get(keys.stage_part(name, fence))
        if row is None:
            raise records.unreadable_error(StageRow.WHAT, f"has no row: stage {name!r}")
        return StageRow(row)

    def compensation_in(self, gen: int) -> CompensationRow | None:
        """Return the cause of a generation's compensation; None: it goes forward."""
        item = self.rows.get(keys.compensation_part(gen))
        return None if item is None else CompensationRow(item)

    def complete_stages(self, gen: int) -> dict[str, StageRow]:
        """Return the stages that are complete in a generation, by name.

        They are in the order of their ends. A compensation of an earlier generation
        ends the entries of its stage, and of those that completed after it.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        rows = sorted(self.stages, key=lambda row: (row.number, row.finished_at))
        number_of = {row.stage: row.number for row in rows}
        undone = [
            (row.gen, row.number or number_of[row.stage])
            for row in self.compensated
            if row.gen < gen
            and (row.number or (row.stage in number_of and not row.resolved_by))
        ]
        return {
            row.stage: row
            for row in rows
            if not any(
                row.claim[0] <= of_gen and number_of[row.stage] >= number
                for of_gen, number in undone
            )
        }

    def number_of(self, stage: str) -> int | None:
        """Return the number of a completed stage; None: it has none."""
        return next((r.number for r in self.stages if r.stage == stage), 0) or None

    @property
    def calls(self) -> list[CallsRow]:
        """The pages of the call journal, the oldest first."""
        return [CallsRow(self.rows[p]) for p in self._by_claim(keys.CALLS_ROWS)]

    def calls_of(self, fence: int) -> list[CallsRow]:
        """Return the pages of one claim, the oldest first.

        The fence of a chunk rises over all generations.
        """
        parts = self._by_claim(keys.CALLS_ROWS)
        found = (part for part in parts if keys.claim_of_part(part)[1] == fence)
        return [CallsRow(self.rows[part]) for part in found]

    @property
    def effects(self) -> list[EffectRow]:
        """The effects in the ledger."""
        return [EffectRow(item) for item in self._kind(keys.EFFECT_ROWS)]

    @property
    def errors(self) -> list[ErrorRow]:
        """The errors that ended earlier claims, the oldest first."""
        return [ErrorRow(self.rows[p]) for p in self._by_claim(keys.ERROR_ROWS)]

    @property
    def compensated(self) -> list[CompensatedRow]:
        """The compensated stages of all generations."""
        return [CompensatedRow(item) for item in self._kind(keys.COMPENSATED_ROWS)]

    @property
    def questions(self) -> list[QuestionRow]:
        """The questions that its stages have asked."""
        return [QuestionRow(item) for item in self._kind(keys.QUESTION_ROWS)]

    @property
    def requests(self) -> list[RequestRow]:
        """What its claims have asked batches for."""
        return [RequestRow(item) for item in self._kind(keys.REQUEST_ROWS)]

    @property
    def answers(self) -> list[AnswerRow]:
        """What batches have answered."""
        return [AnswerRow(item) for item in self._kind(keys.ANSWER_ROWS)]

    def compensated_in(self, gen: int) -> list[CompensatedRow]:
        """Return the compensated stages of a generation."""
        return [CompensatedRow(i) for i in self._kind(keys.compensated_part(gen))]

    def _kind(self, beginning: str) -> list[Item]:
        return [row for part, row in self.rows.items() if part.startswith(beginning)]

    def _by_claim(self, beginning: str) -> list[str]:
        """Return the parts of a kind by claims: as texts, 10000 comes before 9999."""
        parts = [part for part in self.rows if part.startswith(beginning)]
        return sorted(parts, key=keys.claim_of_part)


async def read_work(table: Table, ref: ChunkRef, chunk: Chunk | None = None) -> Work:
    """Read the rows of a chunk, strongly consistent; the chunk first, unless given.

    A row that the chunk names is older than this name.
    """
    if chunk is None and (item := await table.get(ref.pk, ref.sk)) is not None:
        chunk = Chunk.read(ref, item)
    items = table.query(ref.pk, keys.work_prefix(ref.chunk))
    rows = {keys.work_part(ref.chunk, item["sk"]): item async for item in items}
    return Work(rows, chunk)


async def read_effects(table: Table, ref: ChunkRef) -> list[EffectRow]:
    """Read the effects of a chunk."""
    return [EffectRow(item) for item in await _read(table, ref, keys.EFFECT_ROWS)]


async def read_progress_rows(table: Table, chunk: Chunk) -> Work:
    """Read the completed and the compensated stages of a chunk, without its calls."""
    ref = chunk.ref
    stages, compensated, cause = await asyncio.gather(
        _read(table, ref, keys.STAGE_ROWS),
        _read(table, ref, keys.COMPENSATED_ROWS),
        table.get(ref.pk, keys.compensation_sk(ref.chunk, chunk.gen)),
    )
    items = [*stages, *compensated, *([cause] if cause else [])]
    rows = {keys.work_part(ref.chunk, item["sk"]): item for item in items}
    return Work(rows, chunk)


async def _read(table: Table, ref: ChunkRef, beginning: str) -> list[Item]:
    prefix = keys.work_prefix(ref.chunk) + beginning
    return [item async for item in table.query(ref.pk, prefix)]
