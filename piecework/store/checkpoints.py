"""The checkpoints of a claimed chunk: one write under the fence for each stage.

A stage that has completed has a row, which has its name: no row means that it never
ran. So a chunk goes on with whatever stages its pipeline has now, in whatever order.
`stage` on the chunk's row is the cursor, the stage that the chunk is at. The row is
written together with it. It has the start and the end of the stage, its worker and its
attempt, and its value unless that is `null`. The join and `piecework results` read the
row of the result stage. If that is the last stage, the chunk's row has a small value
instead (`results.py`).

A row counts until its stage, or one that completed before it, was compensated. Then the
stage runs again.
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
AT_STAGE = "stage = :cursor"


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
    _rows: dict[str, StageRow] = field(default_factory=dict)
    #: The stage in the chunk's row; empty: as the claim has found it.
    _cursor: str = ""
    #: The stage whose value the row of the result has; empty: there is no such row.
    _result_of: str = ""
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
        self.reached_stage = self.cursor
        began = work.compensation_in(self.claim.gen)
        if began is not None:
            self.failure, self._calls_gen = began.cause, began.calls_gen
        self._compensated = {
            row.stage: row.failure for row in work.compensated_in(self.claim.gen)
        }
        # A join that completed ended its generation: in a later one it runs again.
        if not self.claim.ref.is_join:
            self._rows = work.complete_stages(self.compensation_gen)
        self._completed = dict.fromkeys(self._rows, "")
        self._result_of = work.result.stage if work.result is not None else ""
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
        assignments, values = "stage = :following, started_at = :now", {}
        if index == self.pipeline.result_index:
            assignments += ", result_sha256 = :sha256"
            values = {"sha256": keys.sha256(value.encode())}
        name = self.pipeline.stages[index].name
        step = self._on_chunk(
            "Update",
            condition=self._may_go_on(index),
            update=f"SET {assignments}",
            values={
                "cursor": self.cursor,
                "following": following,
                "now": iso(self.clock()),
                **values,
            },
        )
        writes = [step, *await self.value_writes(index, value)]
        reply = await self.table.transact(writes)
        if isinstance(reply, Refused):
            self._explain(reply, following)
        self._completed[name] = value
        self._cursor, self._started_at = following, step.values["now"]
        if index == self.pipeline.result_index:
            self._result_of = name

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

    async def value_writes(self, index: int, value: str) -> list[ItemWrite]:
        """Return the writes that store a stage's value, and the times of the stage.

        The row of a stage that returned `null` has no value. If it is the last one and
        the result, the end of the chunk says so: it needs no row. An earlier version of
        the pipeline may have had another result stage. Then its row gets the name of
        that stage, before the result replaces it.
        """
        ref, stage = self.claim.ref, self.pipeline.stages[index]
        is_result = index == self.pipeline.result_index
        sk = (
            keys.result_sk(ref.chunk)
            if is_result
            else keys.stage_sk(ref.chunk, stage.name)
        )
        gen, fence = self.claim.gen, self.claim.fence
        replaced = self._rows.get(self._result_of) if is_result else None
        moved = [
            self._put_row(row, keys.stage_sk(ref.chunk, row.stage))
            for row in [replaced]
            if row is not None and row.stage != stage.name
        ]
        if value == NULL and is_result and index == len(self.pipeline.stages) - 1:
            stale = gen > 1 or moved
            delete = self.table.item_write("Delete", ref.pk, sk)
            return [delete, *moved] if stale else []
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
            "code_version": self.claim.code_version or None,
            "attempt": self.claim.attempt,
            "label": self.claim.chunk.label or None,
            "number": self._number_of(stage.name),
            "compensable": True if stage.compensate else None,
            **(await self.objects.put_value(value, at) if value != NULL else {}),
        }
        return [self.table.item_write("Put", ref.pk, sk, item=item), *moved]

    def result_writes(self) -> list[ItemWrite]:
        """Return the write that makes an earlier stage's value the chunk's result.

        It is empty unless that stage completed before it became the result stage.
        """
        name = self.pipeline.stages[self.pipeline.result_index].name
        row = self._rows.get(name)
        if row is None or self._result_of == name:
            return []
        return [self._put_row(row, keys.result_sk(self.claim.ref.chunk))]

    def _put_row(self, row: StageRow, sk: str) -> ItemWrite:
        item = row.pick(row.item.keys() - {"pk", "sk", "v"})
        return self.table.item_write("Put", self.claim.ref.pk, sk, item=item)

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
            "number": self._number_of(stage) if stage in self._completed else None,
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

    def compensation_in(self, gen: int) -> CompensationRow | None:
        """Return the cause of a generation's compensation; None: it goes forward."""
        item = self.rows.get(keys.compensation_part(gen))
        return None if item is None else CompensationRow(item)

    def complete_stages(self, gen: int) -> dict[str, StageRow]:
        """Return the rows of the stages that are complete in a generation, by name.

        They are in the order of their ends. A compensation of an earlier generation
        ends the rows of its stage, and of those that completed after it.
        """
        found: dict[str, StageRow] = {}
        result = [] if self.result is None else [self.result]
        for row in sorted([*self.stages, *result], key=lambda row: row.claim):
            found[row.stage] = row
        rows = sorted(found.values(), key=lambda row: (row.number, row.finished_at))
        # Early rows have no number: their order is that of their times.
        number_of = {row.stage: row.number or n for n, row in enumerate(rows, 1)}
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
        found = [row for row in self.stages if row.stage == stage]
        if self.result is not None and self.result.stage == stage:
            found.append(self.result)
        return max((row.number for row in found), default=0) or None

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


async def read_progress_rows(table: Table, ref: ChunkRef, gen: int) -> Work:
    """Read the completed and the compensated stages of a chunk, without its calls."""
    stages, compensated, cause, result = await asyncio.gather(
        _read(table, ref, keys.STAGE_ROWS),
        _read(table, ref, keys.COMPENSATED_ROWS),
        table.get(ref.pk, keys.compensation_sk(ref.chunk, gen)),
        table.get(ref.pk, keys.result_sk(ref.chunk)),
    )
    items = [*stages, *compensated, *([cause] if cause else [])]
    rows = {keys.work_part(ref.chunk, item["sk"]): item for item in items}
    return Work(rows, None if result is None else StageRow(result))


async def _read(table: Table, ref: ChunkRef, beginning: str) -> list[Item]:
    prefix = keys.work_prefix(ref.chunk) + beginning
    return [item async for item in table.query(ref.pk, prefix)]
