"""The questions of chunks: asked by a claim, ended by one answer or by their time.

Exactly one answer counts: the row of the question decides, by one condition. A person
answers while the chunk waits, so no claim can close the question at that time. A claim
closes it only after its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.claim import Claim
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.protocols import ClaimLostError
from piecework.domain.question import (
    QuestionRow,
    QuestionState,
    Step,
    StepKind,
    WaitRow,
)
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.domain.webhook import WebhookEvent, event_id
from piecework.store.claims import OWNED, ownership_values
from piecework.store.jobs import event_put
from piecework.store.outbox import tell
from piecework.store.table import ItemWrite, Refused, Table, Written
from piecework.store.waits import entry, removal

IS_OPEN = "#state = :open"
#: An answer after the end is refused, however late the worker closes the question.
IN_TIME = f"{IS_OPEN} AND #until > :now AND gen = :gen"
#: The chunk still waits for the question, as it was read: no step came since.
WAITS_FOR_IT = (
    "#status = :waiting AND gen = :gen AND question = :question AND due_at = :due"
    " AND attribute_not_exists(cancel_requested_at)"
)
#: The event of each step in a job's events, and its kind for webhooks.
TOLD = {
    StepKind.ASK: ("asked", "question.asked"),
    StepKind.REMIND: ("reminded", "question.reminded"),
    StepKind.ESCALATE: ("escalated", "question.escalated"),
}
ENDED = {
    QuestionState.DEFAULTED: "defaulted",
    QuestionState.EXPIRED: "timed out",
}


def question_put(table: Table, claim: Claim, facts: Mapping[str, Any]) -> ItemWrite:
    """Return the write of an open question, for the transaction that begins the wait.

    It replaces a question that ended in an earlier generation without an answer. It
    also replaces one with an answer that the stage's model does not accept.
    """
    sk = keys.question_sk(claim.ref.chunk, facts["stage"], facts["question"])
    item = {**facts, "gen": claim.gen, "expires_at": claim.expires_at}
    return table.item_write("Put", claim.ref.pk, sk, item=item)


async def read_question(
    table: Table, ref: ChunkRef, stage: str, question: str
) -> QuestionRow | None:
    """Return a question of a chunk; None: there is no such question."""
    item = await table.get(ref.pk, keys.question_sk(ref.chunk, stage, question))
    return None if item is None else QuestionRow(item)


async def read_questions(table: Table, ref: ChunkRef) -> list[QuestionRow]:
    """Return all questions of a chunk."""
    prefix = keys.work_prefix(ref.chunk) + keys.QUESTION_ROWS
    return [QuestionRow(item) async for item in table.query(ref.pk, prefix)]


@dataclass(slots=True)
class ChunkQuestions:
    """The questions of a claimed chunk."""

    table: Table
    claim: Claim
    pipeline: str
    clock: Callable[[], float]
    _rows: dict[tuple[str, str], QuestionRow] = field(default_factory=dict)

    def load(self, rows: Sequence[QuestionRow]) -> None:
        """Load the questions that earlier claims asked."""
        self._rows = {(row.stage, row.name): row for row in rows}

    def recall(self, stage: str, question: str) -> QuestionRow | None:
        """Return a question as it was when the claim began; None: it is new."""
        return self._rows.get((stage, question))

    async def close(self, row: QuestionRow) -> QuestionRow:
        """Move OPEN -> DEFAULTED | EXPIRED: its time is over.

        The claim is checked, so that a lost worker decides nothing. A worker that dies
        after this write is followed by one that reads the same decision.

        Raises:
            ClaimLostError: Another claim owns the chunk now.
        """
        ref, now = self.claim.ref, self.clock()
        state = QuestionState.EXPIRED
        if row.has_default:
            state = QuestionState.DEFAULTED
        sk = keys.question_sk(ref.chunk, row.stage, row.name)
        update = self.table.item_write(
            "Update",
            ref.pk,
            sk,
            condition=IS_OPEN,
            update="SET #state = :state, decided_at = :now",
            values={"open": QuestionState.OPEN, "state": state, "now": iso(now)},
        )
        check = self.table.item_write(
            "ConditionCheck",
            ref.pk,
            ref.sk,
            condition=OWNED,
            values=ownership_values(self.claim),
        )
        named = {"chunk": ref.chunk, "question": row.name, "stage": row.stage}
        told = {**named, "gen": row.gen}
        event = event_put(self.table, ref.of, ENDED[state], now, told)
        over = question_event(
            ref, self.pipeline, row, "question.timed_out", now, {"state": str(state)}
        )
        deliveries = await tell(self.table, over, now)
        reply = await self.table.transact([update, check, event, *deliveries])
        if isinstance(reply, Refused) and 1 in reply.refused:
            raise ClaimLostError
        # Refused by its own first copy, whose reply was lost: the row decides.
        found = await read_question(self.table, ref, row.stage, row.name)
        if found is None:
            raise ClaimLostError
        self._rows[row.stage, row.name] = found
        return found


# ── the answer of a person ────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """The answer of a person: JSON that the question's model accepts."""

    value: str
    actor: str
    reason: str


async def write_answer(
    table: Table, chunk: Chunk, row: QuestionRow, answer: PersonAnswer, now: float
) -> bool:
    """Move OPEN -> ANSWERED, and make the chunk due at once.

    False: the question or the chunk has changed since they were read. The chunk gets an
    entry at now: if no message is sent, a reconciler finds it. The earlier entry loses
    its question and stays until its time, because operators may not delete rows.
    """
    at, ref = iso(now), chunk.ref
    facts = {"answer": answer.value, "decided_by": answer.actor, "decided_at": at}
    if answer.reason:
        facts["decide_reason"] = answer.reason
    counted = table.item_write(
        "Update",
        ref.pk,
        keys.question_sk(ref.chunk, row.stage, row.name),
        condition=IN_TIME,
        update="SET #state = :answered"
        + "".join(f", #{name} = :{name}" for name in facts),
        values={
            "open": QuestionState.OPEN,
            "answered": QuestionState.ANSWERED,
            "now": at,
            "gen": row.gen,
            **facts,
        },
    )
    due = table.item_write(
        "Update",
        ref.pk,
        ref.sk,
        condition=WAITS_FOR_IT,
        update="SET due_at = :now, redispatch_at = :now"
        " REMOVE retry_at, blocked_on, question",
        values={
            "waiting": ChunkStatus.WAITING,
            "gen": chunk.gen,
            "question": row.name,
            "due": chunk.due_at,
            "now": at,
        },
    )
    told: dict[str, Any] = {"actor": answer.actor, "reason": answer.reason}
    told |= {"value": answer.value}
    named = {"chunk": ref.chunk, "question": row.name, "stage": row.stage}
    told |= {"gen": row.gen}
    event = event_put(table, ref.of, "answered", now, {**named, **told})
    writes = [counted, due, event]
    if chunk.due_at != at:
        writes.append(entry(table, ref, chunk.gen, chunk.due_at))
    writes.append(entry(table, ref, chunk.gen, at))
    return isinstance(await table.transact(writes), Written)


# ── the steps of an open question ─────────────────────────────────────────────


async def write_step(
    table: Table, job: Job, entered: WaitRow, row: QuestionRow, now: float
) -> bool:
    """Take the due step of an open question, and enter its next one.

    Event and deliveries are in the same transaction, so each step is told once. False:
    the chunk does not wait for this step any more.
    """
    ref, number = job.ref.chunk(entered.chunk), entered.step
    if number >= len(row.steps):
        return False
    step = row.steps[number]
    due_at, following = row.again.next_step(entered.due_at)
    move = table.item_write(
        "Update",
        ref.pk,
        ref.sk,
        condition=WAITS_FOR_IT,
        update="SET due_at = :next",
        values={
            "waiting": ChunkStatus.WAITING,
            "gen": entered.gen,
            "question": row.name,
            "due": entered.due_at,
            "next": due_at,
        },
    )
    event, kind = TOLD[step.kind]
    named = {"chunk": ref.chunk, "question": row.name, "stage": row.stage}
    told: dict[str, Any] = {**named, "gen": row.gen, "step": number}
    if step.to:
        told["to"] = step.to
    webhook = question_event(ref, job.pipeline, row, kind, now, {}, (number, step))
    facts = {"stage": row.stage, "question": row.name, "step": following}
    writes = [
        move,
        removal(table, ref, entered.due_at),
        entry(table, ref, entered.gen, due_at, **facts),
        event_put(table, ref.of, event, now, told),
        *await tell(table, webhook, now),
    ]
    return isinstance(await table.transact(writes), Written)


def question_event(
    ref: ChunkRef,
    pipeline: str,
    row: QuestionRow,
    kind: str,
    now: float,
    more: Mapping[str, Any],
    step: tuple[int, Step] | None = None,
) -> WebhookEvent:
    """Return what webhooks are told of a question; never its text or its answer."""
    number = -1 if step is None else step[0]
    to = step[1].to if step else ""
    asks = {
        "chunk": ref.chunk,
        "stage": row.stage,
        "question": row.name,
        "asked_at": row.asked_at,
    }
    verb = {
        "question.asked": "asks",
        "question.reminded": "still asks",
        "question.escalated": f"asks {to or 'again'}",
        "question.timed_out": "got no answer to",
    }[kind]
    return WebhookEvent(
        kind=kind,
        id=event_id(
            ref.tenant, ref.job, ref.chunk, row.gen, row.stage, row.name, kind, number
        ),
        at=iso(now),
        tenant=ref.tenant,
        pipeline=pipeline,
        job=ref.job,
        text=f"Chunk {ref.name} of job {ref.job} {verb} {row.name!r}"
        f" in stage {row.stage}; its time ends at {row.until}.",
        command=f"piecework approvals show {ref.job} {ref.name}",
        data={**asks, "until": row.until, **({"to": to} if to else {}), **more},
        asks={} if step is None else {"job": ref.job, **asks, "to": to},
    )
