"""A compensation that failed: run it again, or resolve it by hand.

Both are an operator's decision on the open dead letter of a chunk. The chunk that
compensates again is reopened (`piecework.store.reopen`) in a generation of its own. It
ends with a new dead letter. The calls of the compensation keep the keys of the
generation in which it began. So the journal and the ledger know the calls that were
answered. A compensation that is resolved by hand changes the record only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.outcome import CompensationResult
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import CompensatedRow, CompensationRow
from piecework.domain.states import ChunkStatus
from piecework.store.cancellation import compensation_put
from piecework.store.checkpoints import EFFECTS_AT_ONCE, Work
from piecework.store.dead_letters import OPEN, STILL_OPEN, Closing
from piecework.store.effects import COMPENSATED, MAY_HAVE_HAPPENED
from piecework.store.table import ItemWrite, Table, Written

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

#: The results of a compensation after which effects may remain.
UNCOMPENSATED = frozenset({CompensationResult.FAILED, CompensationResult.ABANDONED})

#: No redrive has reopened the chunk since its dead letter was read, and no operator has
#: resolved its compensation.
DEAD_AS_READ = "#status = :dead AND gen = :gen AND compensation = :seen"
#: Another operator may have resolved the letter, or closed it.
LETTER_AS_READ = f"{STILL_OPEN} AND compensation = :seen"


@dataclass(frozen=True, slots=True)
class FailedCompensation:
    """A compensation that a reopened chunk runs again.

    Attributes:
        cause: The error that is compensated.
        stage: The stage in which it occurred.
        calls_gen: The generation in the keys of its calls.
        compensated: The stages that are compensated already; they are left out.
    """

    cause: ErrorEnvelope
    stage: str
    calls_gen: int
    compensated: tuple[CompensatedRow, ...]

    @classmethod
    def read(cls, work: Work, gen: int) -> FailedCompensation | None:
        """Return the compensation of a generation; None: none has begun in it."""
        item = work.rows.get(keys.compensation_part(gen))
        if item is None:
            return None
        row, rows = CompensationRow(item), work.compensated_in(gen)
        done = tuple(one for one in rows if not one.has_failed)
        return cls(row.cause, row.stage, row.calls_gen or gen, done)

    def puts(self, table: Table, chunk: Chunk, gen: int) -> list[ItemWrite]:
        """Return the rows with which generation `gen` continues the compensation."""
        ref, expires_at = chunk.ref, chunk.expires_at
        told = (self.stage, self.cause, expires_at)
        cause = compensation_put(table, ref, gen, *told, calls_gen=self.calls_gen)
        rows = [
            table.item_write(
                "Put",
                ref.pk,
                keys.compensated_sk(ref.chunk, gen, row.stage),
                item={
                    "stage": row.stage,
                    "gen": gen,
                    "finished_at": row.finished_at,
                    "number": row.number or None,
                    "expires_at": expires_at,
                },
            )
            for row in self.compensated
        ]
        return [cause, *rows]


# ── resolve a compensation by hand ─────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class HandResolution:
    """An operator's statement about the effects that a dead letter left.

    Attributes:
        result: COMPENSATED: the operator undid the effects. NOT_NEEDED: they may stay.
        stages: The stages that it is about.
        resume_at: The stage at which a redrive continues; empty: as stored.
    """

    result: CompensationResult
    stages: tuple[str, ...]
    by: Closing
    at: str
    resume_at: str = ""


async def resolve_by_hand(
    table: Table,
    letters: Table,
    letter: DeadLetterRow,
    work: Work,
    resolution: HandResolution,
) -> bool:
    """Resolve the failed compensation of a DEAD chunk; False: it has changed.

    The chunk stays DEAD and its dead letter OPEN. With COMPENSATED, a redrive runs the
    stages again: their effects start anew. With NOT_NEEDED it finds their effects done.
    """
    ref, gen = letter.ref, letter.gen
    compensated = resolution.result is CompensationResult.COMPENSATED
    effects = effect_updates(table, ref, work, resolution) if compensated else []
    # The last transaction changes the letter, too, and stores each stage.
    while len(effects) > EFFECTS_AT_ONCE - len(resolution.stages):
        some, effects = effects[:EFFECTS_AT_ONCE], effects[EFFECTS_AT_ONCE:]
        check = chunk_action(table, "ConditionCheck", letter)
        if not isinstance(await table.transact([check, *some]), Written):
            return False
    facts: dict[str, Any] = {"compensation": resolution.result}
    if resolution.resume_at:
        facts["resume_at"] = resolution.resume_at
    chunk = chunk_action(table, "Update", letter, facts)
    close = letter_update(letters, letter, resolution)
    failed = {row.stage for row in work.compensated_in(gen) if row.has_failed}
    again = {*resolution.stages} if compensated else failed
    rows = [
        table.item_write(
            "Put",
            ref.pk,
            keys.compensated_sk(ref.chunk, gen, stage),
            item={
                "stage": stage,
                "gen": gen,
                "finished_at": resolution.at,
                "resolved_by": resolution.by.actor,
                "number": work.number_of(stage) if stage in again else None,
                "expires_at": work.chunk.expires_at if work.chunk else None,
            },
        )
        for stage in resolution.stages
    ]
    reply = await table.transact([chunk, close, *rows, *effects])
    return isinstance(reply, Written)


def chunk_action(
    table: Table, kind: str, letter: DeadLetterRow, facts: dict[str, Any] | None = None
) -> ItemWrite:
    """Return the check of the dead chunk, or its update by `facts`."""
    more = {}
    if facts:
        more["update"] = "SET " + ", ".join(f"{name} = :{name}" for name in facts)
    return table.item_write(
        kind,
        letter.ref.pk,
        letter.ref.sk,
        condition=DEAD_AS_READ,
        values={
            "dead": ChunkStatus.DEAD,
            "gen": letter.gen,
            "seen": letter.compensation,
            **(facts or {}),
        },
        **more,
    )


def letter_update(
    letters: Table, letter: DeadLetterRow, resolution: HandResolution
) -> ItemWrite:
    """Return the write that records the resolution in the dead letter."""
    facts = {
        "compensation": resolution.result,
        "compensation_resolved_at": resolution.at,
        "compensation_resolved_by": resolution.by.actor,
        "compensation_resolve_reason": resolution.by.reason,
        "resolved_stages": list(resolution.stages),
    }
    return letters.item_write(
        "Update",
        letter.job.pk,
        keys.dead_letter_sk(letter.chunk, letter.gen),
        condition=LETTER_AS_READ,
        update="SET "
        + ", ".join(f"{name} = :{name}" for name in facts)
        + " REMOVE uncompensated_stages",
        values={"open": OPEN, "seen": letter.compensation, **facts},
    )


def effect_updates(
    table: Table, ref: ChunkRef, work: Work, resolution: HandResolution
) -> list[ItemWrite]:
    """Return the writes that mark the effects of the stages as compensated."""
    return [
        table.item_write(
            "Update",
            ref.pk,
            keys.effect_sk(ref.chunk, row.key),
            condition="attribute_exists(pk)",
            update="SET #state = :compensated",
            values={"compensated": COMPENSATED},
        )
        for row in work.effects
        if row.stage in resolution.stages and row.state in MAY_HAVE_HAPPENED
    ]


def stages_left(letter: DeadLetterRow, work: Work) -> Sequence[str]:
    """Return the stages with effects that remain, as the letter or the record has them.

    An abandoned compensation could not tell them. Then they are all stages that
    completed or have an effect, except those that were compensated.
    """
    if letter.uncompensated_stages:
        return letter.uncompensated_stages
    done = {row.stage for row in work.compensated_in(letter.gen) if not row.has_failed}
    completed = [row.stage for row in sorted(work.stages, key=lambda r: r.finished_at)]
    affected = [
        row.stage
        for row in work.effects
        if row.state in MAY_HAVE_HAPPENED and not keys.is_compensation_stage(row.stage)
    ]
    return [name for name in dict.fromkeys([*completed, *affected]) if name not in done]
