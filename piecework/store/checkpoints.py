"""The checkpoints of a claimed chunk: one write under the fence for each stage.

`stage` on the chunk's row is the cursor: every stage before it is complete. The value
of a stage has its own row, which is written together with the cursor. The row has the
start and the end of the stage, its worker and its attempt. The value `null` is not
written: a complete stage without a stored value returned it. The join and `piecework
results` read the value of the result stage. If that is the last stage, the chunk's row
has a small value instead (`results.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from piecework.aws.objects import Objects
from piecework.domain import keys
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
    CallsRow,
    CompensatedRow,
    CompensationRow,
    EffectRow,
    ErrorRow,
    StageRow,
    read_error,
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
#: A late copy of an earlier checkpoint would set the cursor back.
AT_STAGE = "stage = :done"


@dataclass(slots=True)
class ChunkCheckpoints:
    """The checkpoints of one claim.

    Attributes:
        cancel: The cancel request that refused a checkpoint, if any.
    """

    table: Table
    objects: Objects
    claim: Claim
    pipeline: Pipeline
    ledger: EffectLedger
    clock: Callable[[], float]
    failure: ErrorEnvelope | None = None
    reached_stage: str = ""
    cancel: CancelRequest | None = None
    #: When the present stage started; empty: with the claim.
    _started_at: str = ""
    _completed: dict[str, str] = field(default_factory=dict)
    _compensated: dict[str, ErrorEnvelope | None] = field(default_factory=dict)
    _calls_gen: int | None = None

    @property
    def prefix(self) -> str:
        """The prefix of the job's object keys."""
        return keys.object_prefix(self.claim.ref.tenant, self.claim.ref.job)

    @property
    def completed(self) -> Mapping[str, str]:
        """The JSON value of each complete stage."""
        return self._completed

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
        cursor = self.claim.chunk.stage
        names = [stage.name for stage in self.pipeline.stages]
        if cursor not in names:
            message = (
                f"Pipeline {self.pipeline.name!r} has no stage {cursor!r} any more."
            )
            raise PermanentError(message, code="runtime.stage.not_found")
        self.reached_stage = cursor
        for index, name in enumerate(names[: names.index(cursor)]):
            is_result = index == self.pipeline.result_index
            row = work.result if is_result else work.stage(name)
            self._completed[name] = (
                await self.objects.get_value(row, self.prefix)
                if row is not None and row.has_value
                else NULL
            )
        cause = work.rows.get(keys.compensation_part(self.claim.gen))
        if cause is not None:
            began = CompensationRow(cause)
            self.failure, self._calls_gen = began.cause, began.calls_gen
        self._compensated = {
            row.stage: row.failure for row in work.compensated_in(self.claim.gen)
        }

    async def complete(self, index: int, value: str, following: str) -> None:
        """Checkpoint a stage's value and enter the following stage, in one write.

        Raises:
            CancelRequestedError: The job was cancelled; no further stage may start.
            ClaimLostError: Another claim owns the chunk now.
        """
        assignments, values = "stage = :following, started_at = :now", {}
        if index == self.pipeline.result_index:
            assignments += ", result_sha256 = :sha256"
            values = {"sha256": keys.sha256(value.encode())}
        step = self._on_chunk(
            "Update",
            condition=self._may_go_on(index + 1),
            update=f"SET {assignments}",
            values={
                "done": self.pipeline.stages[index].name,
                "following": following,
                "now": iso(self.clock()),
                **values,
            },
        )
        writes = [step, *await self.value_writes(index, value)]
        if len(writes) == 1:
            reply = await self.table.update(step, returning="NONE")
        else:
            reply = await self.table.transact(writes)
        if isinstance(reply, Refused):
            self._explain(reply, following)
        self._completed[self.pipeline.stages[index].name] = value
        self._started_at = step.values["now"]

    def _may_go_on(self, following: int) -> str:
        """Return the condition of entering a stage.

        A cancel stops a chunk before its pivot; after the pivot it only goes forward.
        """
        if following > self.pipeline.pivot_index:
            return f"{OWNED} AND {AT_STAGE}"
        return f"{OWNED} AND {AT_STAGE} AND {NOT_CANCELLED}"

    def _explain(self, refused: Refused, following: str) -> None:
        item = refused.item or {}
        if item.get("claim_token") != self.claim.token:
            raise ClaimLostError
        if item.get("stage") == following:
            return  # our first copy was applied, and its answer was lost
        self.cancel = CancelRequest.read(item)
        if self.cancel is not None:
            raise CancelRequestedError
        raise ClaimLostError

    async def value_writes(self, index: int, value: str) -> list[ItemWrite]:
        """Return the write that stores a stage's value, and the times of the stage.

        The row of a stage that returned `null` has no value. A result that is `null`
        has no row: what an earlier generation may have left there is deleted.
        """
        ref, stage = self.claim.ref, self.pipeline.stages[index]
        is_result = index == self.pipeline.result_index
        sk = (
            keys.result_sk(ref.chunk)
            if is_result
            else keys.stage_sk(ref.chunk, stage.name)
        )
        if value == NULL and is_result:
            anew = self.claim.gen > 1
            return [self.table.item_write("Delete", ref.pk, sk)] if anew else []
        gen, fence = self.claim.gen, self.claim.fence
        at = keys.stage_value_key(
            ref.tenant, ref.job, ref.chunk, gen, fence, stage.name
        )
        item = {
            "stage": stage.name,
            "finished_at": iso(self.clock()),
            "gen": gen,
            "fence": fence,
            "started_at": self._started_at or self.claim.chunk.claimed_at or None,
            "worker": self.claim.worker,
            "attempt": self.claim.attempt,
            "label": self.claim.chunk.label or None,
            **(await self.objects.put_value(value, at) if value != NULL else {}),
        }
        return [self.table.item_write("Put", ref.pk, sk, item=item)]

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
        row = compensation_put(self.table, ref, self.claim.gen, stage, failure)
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
        }
        effects = [] if failure else self.ledger.compensation_updates(stage)
        while len(effects) > EFFECTS_AT_ONCE:
            some, effects = effects[:EFFECTS_AT_ONCE], effects[EFFECTS_AT_ONCE:]
            await self._write(check, *some)
        put = self.table.item_write("Put", ref.pk, sk, item=item)
        await self._write(check, put, *effects)
        self._compensated[stage] = failure

    def _on_chunk(
        self, kind: str, *, values: dict[str, str], **parts: str
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
    """The rows of a chunk, by the last part of their sort key, and its result."""

    rows: dict[str, Item]
    result: StageRow | None

    @property
    def stages(self) -> list[StageRow]:
        """The values of completed stages, without the result."""
        return [StageRow(item) for item in self._kind(keys.STAGE_ROWS)]

    def stage(self, name: str) -> StageRow | None:
        """Return the value of a stage; None: it is null, or has not completed."""
        item = self.rows.get(keys.stage_part(name))
        return None if item is None else StageRow(item)

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

    def compensated_in(self, gen: int) -> list[CompensatedRow]:
        """Return the compensated stages of a generation."""
        return [CompensatedRow(i) for i in self._kind(keys.compensated_part(gen))]

    def _kind(self, beginning: str) -> list[Item]:
        return [row for part, row in self.rows.items() if part.startswith(beginning)]

    def _by_claim(self, beginning: str) -> list[str]:
        """Return the parts of a kind by claims: as texts, 10000 comes before 9999."""
        parts = [part for part in self.rows if part.startswith(beginning)]
        return sorted(parts, key=keys.claim_of_part)


async def read_work(table: Table, ref: ChunkRef) -> Work:
    """Read the rows of a chunk, strongly consistent."""
    prefix = keys.work_prefix(ref.chunk)

    async def rows() -> dict[str, Item]:
        items = table.query(ref.pk, prefix)
        return {keys.work_part(ref.chunk, item["sk"]): item async for item in items}

    found, result = await asyncio.gather(
        rows(), table.get(ref.pk, keys.result_sk(ref.chunk))
    )
    return Work(found, None if result is None else StageRow(result))


async def read_effects(table: Table, ref: ChunkRef) -> list[EffectRow]:
    """Read the effects of a chunk."""
    return [EffectRow(item) for item in await _read(table, ref, keys.EFFECT_ROWS)]


async def read_stages(table: Table, ref: ChunkRef) -> list[StageRow]:
    """Read the values of a chunk's completed stages, the result last."""
    items, result = await asyncio.gather(
        _read(table, ref, keys.STAGE_ROWS),
        table.get(ref.pk, keys.result_sk(ref.chunk)),
    )
    return [StageRow(item) for item in [*items, *([result] if result else [])]]


async def read_compensation(
    table: Table, ref: ChunkRef, gen: int
) -> tuple[ErrorEnvelope | None, list[CompensatedRow]]:
    """Read the cause of a generation's compensation, and the compensated stages."""
    items, cause = await asyncio.gather(
        _read(table, ref, keys.compensated_part(gen)),
        table.get(ref.pk, keys.compensation_sk(ref.chunk, gen)),
    )
    return read_error(cause) if cause else None, [CompensatedRow(i) for i in items]


async def _read(table: Table, ref: ChunkRef, beginning: str) -> list[Item]:
    prefix = keys.work_prefix(ref.chunk) + beginning
    return [item async for item in table.query(ref.pk, prefix)]
