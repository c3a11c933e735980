"""Take a job up again that was cancelled, or that ended without some of its chunks.

    job -> RESUMING, next generation -> tallies -> chunks -> RUNNING -> messages

Chunks that have a result keep it. The others go on at their first stage that is not
done: what they had paid for and done is not repeated. Stopped half-way it can simply
be asked for again, and the reconciler goes on if nobody does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.pace import Pace
from piecework import keys, layout
from piecework.errors import NotFoundError, UsageError
from piecework.fanout import SignsOfLife, fan_out
from piecework.finish import begin_finish
from piecework.model import Chunk, ChunkRef, ChunkStatus, Job, JobRef, JobStatus, iso
from piecework.queue import Message, batches
from piecework.runtime import Runtime
from piecework.store.census import all_chunks
from piecework.store.dead_letters import DISCARDED, OPEN, Closing, DeadLetters
from piecework.store.reopen import Patched, Reopening, reopen_chunk
from piecework.store.table import Action, Item

#: What `reopen_chunk` reads of a chunk's item, and what closes its dead letter of that:
#: a large job that ended badly has very many to take up again.
REOPENED_BY = {"stage", "resume_at"}
CLOSED_BY = {"tenant", "job", "chunk", "gen", "died_at", "letter_state"}
RESUMABLE = {JobStatus.PARTIAL, JobStatus.FAILED, JobStatus.CANCELLED}


@dataclass(frozen=True, slots=True)
class Resume:
    """What a person asked for, and who it was.

    Attributes:
        deadline: A new one. Without it one that lies ahead stands, and one that has
            passed goes: it would cancel the job again at once.
        rate: Chunks handed out a second; None: all at once.
    """

    ref: JobRef
    actor: str
    reason: str
    deadline: float | None = None
    rate: float | None = None

    @property
    def by(self) -> Closing:
        """Who closes the dead letters, and why."""
        return Closing(self.actor, self.reason)


@dataclass(frozen=True, slots=True)
class Wish:
    """A chunk to take up again.

    Attributes:
        letter: Its open dead letter, which is closed with it.
        patched: Its new payload, if it is to have one.
    """

    chunk: Chunk
    letter: Item | None = None
    patched: Patched | None = None


async def resume(rt: Runtime, asked: Resume) -> tuple[int, int]:
    """Take up every chunk that has no result; return how many, and the generation.

    What somebody discarded stays dead.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`; `job.resume.nothing_left`: there is none,
            and its join has run.
    """
    job = await resumable(rt, asked.ref)
    letters = {
        (letter["chunk"], letter["gen"]): only(letter, CLOSED_BY)
        async for letter in rt.dead_letters.query(asked.ref.pk)
    }
    wishes = []
    async for chunk in all_chunks(rt.table, asked.ref, job.chunks):
        letter = letters.get((chunk.ref.chunk, chunk.gen), {})
        state = letter.get("letter_state")
        ended = chunk.status in {ChunkStatus.DEAD, ChunkStatus.CANCELLED}
        if ended and state != DISCARDED:
            seen = replace(chunk, item=only(chunk.item, REOPENED_BY))
            wishes.append(Wish(seen, letter if state == OPEN else None))
    if not wishes and job.status is JobStatus.PARTIAL:
        message = f"No chunk of job {job.ref.job} is left to take up."
        step = f"`piecework results {job.ref.job}`"
        raise UsageError(message, code="job.resume.nothing_left", next_step=step)
    taken_up, gen = await reopen(rt, job, wishes, asked, "resumed")
    return len(taken_up), gen


def only(item: Mapping[str, Any], names: Collection[str]) -> Item:
    """Return an item with no more than these attributes."""
    return {name: item[name] for name in names if name in item}


async def resumable(rt: Runtime, ref: JobRef) -> Job:
    """Return the job if it may be taken up again.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`.
    """
    job = await rt.jobs.read(ref)
    if job is None:
        message = f"There is no job {ref.job}."
        raise NotFoundError(message, code="job.record.not_found")
    if job.status not in {*RESUMABLE, JobStatus.RESUMING}:
        message = f"Job {ref.job} is {job.status}."
        raise UsageError(
            message,
            code="job.state.not_finished",
            next_step=f"`piecework jobs watch {ref.job}`, then ask again.",
        )
    return job


async def reopen(
    rt: Runtime, job: Job, wishes: Sequence[Wish], asked: Resume, event: str
) -> tuple[list[ChunkRef], int]:
    """Reopen chunks of an ended job and hand them out; return which, and the gen."""
    if job.status is not JobStatus.RESUMING:
        facts = {"resumed_by": asked.actor, "resume_reason": asked.reason}
        if asked.deadline is not None:
            facts["deadline_at"] = iso(asked.deadline)
        also = await close_join(rt, job, asked.by)
        if await rt.moves.reopen(job, facts, also) is None:
            return await reopen(
                rt, await resumable(rt, asked.ref), wishes, asked, event
            )
        job = await rt.jobs.read(asked.ref) or job
    await forget_ends(rt, job, [wish.chunk.ref.chunk for wish in wishes])
    pace = Pace(asked.rate, rt.clock()) if asked.rate else None
    taken_up = await take_up(rt, job, wishes, asked.by, pace)
    await rt.moves.resume(job)
    await hand_out(rt, job, taken_up, pace)
    noted: dict[str, Any] = {
        "actor": asked.actor,
        "reason": asked.reason,
        "gen": job.gen,
        "chunks": len(taken_up),
    }
    await rt.jobs.record(asked.ref, event, noted)
    return taken_up, job.gen


async def close_join(rt: Runtime, job: Job, by: Closing) -> list[Action]:
    """Return what closes the letter of a join that died, for it runs anew."""
    sk = keys.dead_letter_sk(keys.JOIN_CHUNK, job.gen)
    letter = await rt.dead_letters.get(job.ref.pk, sk)
    if letter is None or letter["letter_state"] != OPEN:
        return []
    return DeadLetters(rt.dead_letters, rt.settings, rt.clock).redriving(
        letter, job.gen + 1, by
    )


async def forget_ends(rt: Runtime, job: Job, numbers: Sequence[int]) -> None:
    """Take chunks out of the tallies, before they can be counted anew."""
    groups: dict[int, set[int]] = defaultdict(set)
    for number in numbers:
        groups[layout.group_of(number)].add(number)
    life = SignsOfLife(rt, job)
    for group, ended in groups.items():
        await life.show()
        await rt.tallies.remove(job.ref, group, ended)


async def take_up(
    rt: Runtime, job: Job, wishes: Sequence[Wish], by: Closing, pace: Pace | None
) -> list[ChunkRef]:
    """Reopen the chunks that are still as they were seen, each with its letter."""
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    taken_up: list[ChunkRef] = []
    life = SignsOfLife(rt, job)
    for wish in wishes:
        await life.show()
        turn = pace.turn(len(taken_up)) if pace else None
        also = (
            letters.redriving(wish.letter, job.gen, by, wish.patched)
            if wish.letter
            else []
        )
        how = Reopening(wish.patched, turn, also)
        if await reopen_chunk(rt.table, wish.chunk, job.gen, how):
            taken_up.append(wish.chunk.ref)
    return taken_up


async def hand_out(
    rt: Runtime, job: Job, refs: Sequence[ChunkRef], pace: Pace | None
) -> None:
    """Send the reopened chunks; finish a submit or a job that waits for none."""
    now = await rt.jobs.read(job.ref)
    if now is not None and now.status is JobStatus.SUBMITTING:
        await fan_out(rt, now)
        return
    waits = pace.delays(refs, rt.clock()) if pace else {0: list(refs)}
    life = SignsOfLife(rt, job)
    for seconds, due in waits.items():
        for some in batches(due):
            await life.show()
            messages = [Message.about(chunk, job.gen) for chunk in some]
            await rt.work.send(messages, delay_s=seconds)
    if not refs:
        begun = await begin_finish(rt, job.ref)
        if begun is not None:
            await rt.work.send([Message.about(*begun)])
