"""Answer the question of a chunk: any process may, and exactly one answer counts."""

from __future__ import annotations

from enum import Enum, auto

from piecework.aws.queue import Message
from piecework.domain.question import QuestionRow, QuestionState
from piecework.domain.refs import ChunkRef
from piecework.runtime import Runtime
from piecework.store.completion import read_chunk
from piecework.store.questions import PersonAnswer, read_question, write_answer

#: Writes of an answer while steps of its question come between.
TRIES = 5


class Refusal(Enum):
    """Why an answer does not count."""

    #: The question was answered before, or its time is over.
    ENDED = auto()
    #: The chunk does not wait for it any more, such as after a cancel.
    LEFT = auto()
    #: Steps of the question were written between each read and its answer.
    CONTENDED = auto()


async def answer_question(
    rt: Runtime, ref: ChunkRef, seen: QuestionRow, answer: PersonAnswer
) -> tuple[QuestionRow, Refusal | None]:
    """Answer a question, and send the message of its chunk.

    Return the question as it is stored then, and why the answer does not count; None:
    it counts. If the caller dies before it sends the message, a reconciler sends it.
    """
    row = seen
    for _ in range(TRIES):
        chunk = await read_chunk(rt.table, ref)
        row = await read_question(rt.table, ref, seen.stage, seen.name) or seen
        if row.state is not QuestionState.OPEN or row.is_over(rt.clock()):
            return row, Refusal.ENDED
        if chunk is None or chunk.question != row.name or chunk.gen != row.gen:
            return row, Refusal.LEFT
        if await write_answer(rt.table, chunk, row, answer, rt.clock()):
            await rt.work.send(
                [Message.about(ref, chunk.gen)], to=await rt.jobs.queue_of(ref.of)
            )
            return await read_question(rt.table, ref, row.stage, row.name) or row, None
    return row, Refusal.CONTENDED
