"""A work item, and what a worker does with its message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from piecework.aws.queue import Message, Receipt
from piecework.aws.work_queues import WorkQueues
from piecework.domain.job import Job
from piecework.domain.outcome import leaves_queue
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.runtime import Runtime
from piecework_worker.job_cache import JobCache


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A chunk to work on, with its SQS message if it has one."""

    ref: ChunkRef
    gen: int
    received: int = 0
    receipt: Receipt | None = None
    message_id: str = ""


class MessageAction(Enum):
    """What the worker does with the message of a work item."""

    #: The chunk has ended: count it, then delete the message.
    ACK = auto()
    #: The chunk ended during a cancel: as `ACK`, and it may be the job's last chunk.
    ACK_CANCELLED = auto()
    #: The chunk had ended before: as `ACK`.
    ACK_ENDED = auto()
    #: Delete the message: no chunk needs it. It is of an earlier generation. Or the
    #: next message comes from the reconciler, a resume, or the end of a chunk.
    DELETE = auto()
    #: Leave the message: SQS delivers it again later.
    KEEP = auto()
    #: The chunk does not exist: move the message to quarantine.
    QUARANTINE = auto()


async def keep_for_next_attempt(
    work_item: WorkItem,
    delay: float,
    job: Job,
    rt: Runtime,
    jobs: JobCache,
    *,
    paused: bool,
) -> MessageAction:
    """Hide the message until the next attempt; send one if the item had none.

    A chunk that waits long leaves the queue. Its record already says when it is due, so
    a worker that dies before the deletion loses nothing. A paused chunk leaves the
    queue, too, unless its job was resumed before the chunk was given back.
    """
    if paused and await is_paused(work_item.ref.of, jobs):
        return MessageAction.DELETE
    if leaves_queue(delay):
        return MessageAction.DELETE
    if work_item.receipt is None:
        message = Message.about(work_item.ref, work_item.gen)
        await rt.work.send([message], to=job.queue, delay_s=delay)
    await hide_message(work_item, delay, rt.work)
    return MessageAction.KEEP


async def is_paused(ref: JobRef, jobs: JobCache) -> bool:
    """Return whether a job is paused now: a later resume sends its messages."""
    job = await jobs.fresh(ref)
    return job is not None and job.status is JobStatus.PAUSED


async def hide_message(work_item: WorkItem, seconds: float, queues: WorkQueues) -> None:
    """Make SQS hide the message for `seconds`."""
    if work_item.receipt is not None:
        await queues.hide([work_item.receipt], seconds)
