"""Receive and process messages until a stop; then finish or release the chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from piecework import telemetry
from piecework.aws.queue import Delivery, Message
from piecework.cost.meter import acting_as
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.records import UNREADABLE, reading
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import PermanentError, SchemaTooNewError, StoreError
from piecework.errors.classify import classify
from piecework.jobs.fan_in import end_cancelled, start_join
from piecework.store.dead_letters import DeadLetters
from piecework_worker.acks import Ack, AckBatcher
from piecework_worker.ahead import Drawn
from piecework_worker.cancel_poller import CancelPoller
from piecework_worker.draws import Draws
from piecework_worker.escalator import escalate
from piecework_worker.executor import execute
from piecework_worker.lease import InterruptReason, Lease
from piecework_worker.notifier import notify_job
from piecework_worker.receiver import Receiver
from piecework_worker.refusals import defer_to_newer_worker, leave_until_slot
from piecework_worker.services import WorkerServices
from piecework_worker.stage_durations import StageDurations
from piecework_worker.work_item import MessageAction, WorkItem

#: Seconds, at most, for which a message keeps its slot after an outage of the store.
OUTAGE_S = 5.0
#: Actions for a chunk that has ended.
ENDED = {MessageAction.ACK, MessageAction.ACK_CANCELLED, MessageAction.ACK_ENDED}
#: Actions for a message that led to no claim; a rung may be due.
WITHOUT_CLAIM = {MessageAction.ACK_ENDED, MessageAction.DELETE}


@dataclass(slots=True)
class Worker:
    """A worker and its active tasks.

    Attributes:
        stop: Set when the worker must stop.
        closing: The shutdown grace is over: tasks that start now would not be awaited.
        grace_s: Seconds from the stop until chunks are interrupted; a shorter time
            counts during the shutdown grace, too.
    """

    services: WorkerServices
    stop: asyncio.Event
    active_tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    closing: bool = False
    grace_s: float = field(init=False)
    draws: Draws = field(init=False)
    receiver: Receiver = field(init=False)
    acks: AckBatcher = field(init=False)

    def __post_init__(self) -> None:
        services = self.services
        services.intake.next_chunks.closed = self.takes_no_chunk
        self.grace_s = services.rt.settings.shutdown_grace_s
        self.draws = Draws(
            services.rt, services.intake, services.calls.breakers, self.on_drawn
        )
        self.receiver = Receiver(
            services,
            self.stop,
            lambda: services.slots.taken(len(self.active_tasks)),
            self.start,
            self.draws,
        )
        services.slots.on_free = self.receiver.on_slot_freed
        self.acks = AckBatcher(
            services.rt,
            lambda: len(self.active_tasks) <= 1,
            self.start_join,
            services.log,
        )

    async def run(self) -> None:
        """Run until the stop.

        Raises:
            Exception: The error of a loop. Without one of its loops a worker would only
                seem alive, so it releases its chunks and ends.
        """
        services = self.services
        poller = CancelPoller(
            services.rt,
            services.lease_renewer,
            services.calls.breakers,
            services.log,
            services.intake.jobs.remember,
        )
        loops: list[Coroutine[Any, Any, Any]] = [self.receiver.run(), self.acks.run()]
        loops += [poller.run(), services.lease_renewer.run(), self.stop.wait()]
        loops.append(services.exhaustion.end())
        tasks = [asyncio.create_task(loop) for loop in loops]
        services.collector.start()
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.stop.set()
            await finish_or_release(self, tasks[0])
        finally:
            tasks += services.collector.tasks
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def start(self, each: Delivery | Drawn) -> None:
        """Start the work on a message, or on a chunk that has no message."""
        if isinstance(each, Drawn):
            work_item = WorkItem(each.ref, each.gen)
            self.start_task(self.perform_drawn(work_item, each.job))
        else:
            self.start_task(self.handle(each))

    def on_drawn(self, job: Job, ref: ChunkRef, gen: int) -> None:
        """Start the work on a drawn chunk, now or in the next free slot."""
        self.receiver.take(Drawn(job, ref, gen))

    async def perform_drawn(self, work_item: WorkItem, job: Job) -> None:
        """Run a chunk without a message; the reconciler sends one if this fails."""
        try:
            await self.perform(work_item, job)
        except StoreError as error:
            await self.wait_for_store(error)

    def start_task(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a task whose failure affects no other task."""
        task = asyncio.create_task(work)
        self.active_tasks.add(task)
        task.add_done_callback(self.on_task_done)

    def on_task_done(self, task: asyncio.Task[Any]) -> None:
        """Free the task's slot and log its failure; SQS delivers its message again.

        A cancellation that the worker did not request comes from what a stage awaited.
        """
        self.active_tasks.discard(task)
        self.receiver.on_task_done()
        try:
            task.result()
        except BaseException as error:  # noqa: BLE001 -- logged
            if not (task.cancelled() and task.cancelling()):
                code, log = classify(error).code, self.services.log
                telemetry.emit(log, "worker.execution_failed", error_code=code)

    async def handle(self, delivery: Delivery) -> None:
        """Run the chunk of a message, or delete, defer or quarantine the message.

        The worker does not guess the content of a malformed record. Once an operator
        has repaired the record, the reconciler sends a new message.
        """
        message = delivery.message
        if delivery.newer:
            await defer_to_newer_worker(
                "message", delivery, self.services.rt, self.services.log
            )
            return
        if message is None:
            await self.quarantine(delivery, "runtime.message.malformed")
            return
        work_item = WorkItem(
            message.ref,
            message.gen,
            delivery.received,
            delivery.receipt,
            delivery.message_id,
        )
        action = MessageAction.QUARANTINE
        try:
            with reading(f"Job {message.job}"):
                job = await self.services.intake.jobs.recent(work_item.ref.of)
            if job is not None:
                self.draws.hint(job)
                action = await self.perform(work_item, job)
        except SchemaTooNewError:
            await defer_to_newer_worker(
                "record", delivery, self.services.rt, self.services.log
            )
            return
        except StoreError as error:
            await self.wait_for_store(error)
            return
        except PermanentError as error:
            if error.code != UNREADABLE:
                raise
            await self.quarantine(delivery, UNREADABLE)
            return
        match action:
            case MessageAction.DELETE:
                self.acks.delete(delivery.receipt)
            case MessageAction.QUARANTINE:
                await self.quarantine(delivery, "runtime.message.orphan")

    async def wait_for_store(self, error: StoreError) -> None:
        """Keep the slot for a moment after an outage; raise any other error.

        Otherwise the worker would receive each message of the queue. SQS would soon
        move them all to its dead-letter queue.
        """
        if not error.is_outage:
            raise error
        self.services.exhaustion.note(error)
        delay = self.services.rt.rng.uniform(OUTAGE_S / 2, OUTAGE_S)
        code, log = error.code, self.services.log
        telemetry.emit(log, "worker.store_failed", error_code=code, delay_s=delay)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), delay)

    async def perform(self, work_item: WorkItem, job: Job) -> MessageAction:
        """Execute a work item; queue the ack of a chunk that has ended.

        After the join the notify hook of the job may be due. Some work items exist only
        for that hook.
        """
        services = self.services
        if work_item.ref.is_join and job.has_ladder:
            await self.escalate(work_item, job)
        can_notify = work_item.ref.is_join and self.can_notify(job)
        if can_notify:
            action = await self.notify(work_item)
            if action is not None:
                return action
        # No cap applies to a join: the chunks of its job have ended.
        tenant = "" if work_item.ref.is_join else job.ref.tenant
        free_slot = await services.intake.caps.admit(tenant, self.stop)
        if free_slot is None:
            return await leave_until_slot(
                work_item, job, services.rt, services.intake.jobs, services.log
            )
        try:
            with (
                services.rt.cost.working(job.ref, ends=work_item.ref.is_join),
                services.tracing(work_item.ref, job, work_item.message_id),
            ):
                action = await execute(work_item, job, services)
        finally:
            free_slot()
        if job.has_ladder and action in WITHOUT_CLAIM:
            action = await self.escalate(work_item, job) or action
        if action in ENDED:
            cancelled = action is MessageAction.ACK_CANCELLED
            self.acks.add(Ack(work_item.ref, job.chunks, work_item.receipt, cancelled))
            if can_notify:
                await self.notify(WorkItem(work_item.ref, work_item.gen))
        return action

    def can_notify(self, job: Job) -> bool:
        """Return whether the job has a notify hook that this worker can call."""
        has_pipeline = self.services.intake.pipeline_of(job) is not None
        return job.has_notify_hook and has_pipeline

    async def notify(self, work_item: WorkItem) -> MessageAction | None:
        """Deliver the due notifications of a job; None: the item is for the join."""
        services = self.services
        return await notify_job(
            work_item, services.rt, services.intake.pipelines, services.log
        )

    async def escalate(self, work_item: WorkItem, job: Job) -> MessageAction | None:
        """Call the hook of the next rung of a dead letter, if it is due."""
        services = self.services
        return await escalate(
            work_item, job, services.rt, services.intake, services.log
        )

    async def quarantine(self, delivery: Delivery, code: str) -> None:
        """Quarantine a message that belongs to no known chunk."""
        rt = self.services.rt
        letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
        await letters.quarantine(delivery, code)
        await rt.work.delete([delivery.receipt])
        telemetry.emit(
            self.services.log,
            "message.quarantined",
            message_id=delivery.message_id,
            error_code=code,
        )

    async def start_join(self, ref: JobRef) -> None:
        """Start the join of a job whose chunks have all ended, in this worker.

        If the worker dies, the reconciler sends the join as a message. If the worker is
        closing, it sends the message itself.
        """
        rt = self.services.rt
        # One read is enough: the writes that end the job fail if it has changed since.
        job = await rt.jobs.read(ref)
        if job is None:
            return
        cancelled = await end_cancelled(rt, job)
        join_item = None if cancelled else await start_join(rt, job)
        if cancelled and self.can_notify(job) and not self.closing:
            self.start_task(self.notify(WorkItem(ref.chunk(keys.JOIN_CHUNK), job.gen)))
        if join_item is None:
            return
        log = self.services.log.bind(job=ref.job)
        telemetry.emit(log, "job.finalizing", chunks=job.chunks)
        join, gen = join_item
        if self.closing:
            await rt.work.send([Message.about(join, gen)], to=job.queue)
            return
        self.start_task(self.perform(WorkItem(join, gen), job))

    # Called by the tasks beside the worker: its reconciler and its ECS protection.

    async def offer_chunk(self, ref: ChunkRef, gen: int) -> bool:
        """Start a chunk without a message if a slot is free; return whether it did.

        The reconciler beside this worker offers each chunk before it sends the message.
        A chunk that starts here need not wait behind the queue.
        """
        # The cost is the worker's, even if a reconciler offers the chunk.
        with acting_as("worker"):
            job = await self.services.intake.jobs.recent(ref.of)
            if job is None or self.receiver.is_full() or self.stop.is_set():
                return False
            if self.services.intake.pipeline_of(job) is None:
                return False
            if job.queue not in self.services.intake.queues:
                return False
            if not (ref.is_join or self.services.intake.caps.room(ref.tenant)):
                return False
            self.start_task(self.perform(WorkItem(ref, gen), job))
            return True

    def lease_count(self) -> int:
        """Return the number of leases."""
        return len(self.services.lease_renewer.leases)

    def count_unfinished(self) -> int:
        """Return the active tasks and receives, each of which may claim a chunk."""
        waiting = self.receiver.polls.in_flight + len(self.receiver.ahead)
        return len(self.active_tasks) + waiting

    def pause_intake(self, *, on: bool) -> None:
        """Pause or resume the intake of new chunks."""
        self.receiver.pause(on=on)
        if on and self.receiver.ahead:
            self.start_task(self.receiver.ahead.give_back())
        if on and self.services.intake.next_chunks.jobs:
            self.start_task(self.services.intake.next_chunks.send_all(self.services.rt))

    def takes_no_chunk(self) -> bool:
        """Return whether the worker stops, or its intake is paused."""
        return self.stop.is_set() or self.receiver.paused


# ── stop a worker ─────────────────────────────────────────────────────────────


#: Seconds between two checks of a stopping worker's active tasks.
POLL_S = 0.1
#: Seconds to write the release of interrupted chunks, then to count ended chunks.
RELEASE_S = 5.0
ACK_FLUSH_S = 2.0
#: Seconds from the end of the shutdown grace to the exit, whatever was active then:
#: `shutdown_grace_s` plus this must be less than the platform's `stopTimeout`.
SHUTDOWN_MARGIN_S = RELEASE_S + ACK_FLUSH_S + 2.0


async def finish_or_release(worker: Worker, receiving: asyncio.Task[None]) -> None:
    """Wait for the active tasks; release each chunk that does not end in time."""
    services, active_tasks = worker.services, worker.active_tasks
    telemetry.emit(services.log, "worker.stopping", in_progress=len(active_tasks))
    worker.receiver.slot_freed.set()
    now = asyncio.get_running_loop().time
    began = now()
    services.calls.release_at = began + worker.grace_s
    with suppress(StoreError):  # otherwise the reconciler sends them
        await services.intake.next_chunks.send_all(services.rt)
    while (seconds_left := began + worker.grace_s - now()) > 0 and (
        active_tasks or not receiving.done()
    ):
        release_late(
            services.lease_renewer.leases,
            services.stages.durations,
            began + worker.grace_s,
        )
        waits = {receiving, *active_tasks}
        await asyncio.wait(waits, timeout=min(seconds_left, POLL_S))
    worker.closing = True
    until = now() + RELEASE_S
    # The answer to a poll as long as the shutdown grace is on its way.
    while (seconds_left := until - now()) > 0 and (
        active_tasks or not receiving.done()
    ):
        # Repeat: a claim may have been in flight, so that a new lease appears.
        for lease in list(services.lease_renewer.leases.values()):
            lease.interrupt(InterruptReason.STOPPING)
        waits = {receiving, *active_tasks}
        await asyncio.wait(waits, timeout=min(seconds_left, POLL_S))
    try:
        async with asyncio.timeout(ACK_FLUSH_S):
            await asyncio.gather(worker.acks.flush(), services.calls.budgets.close())
    except TimeoutError:
        telemetry.emit(services.log, "acks.failed", error="TimeoutError")


def release_late(
    leases: Mapping[str, Lease], durations: StageDurations, until: float
) -> None:
    """Release at once each chunk that waits for that, or will not end its stage."""
    now = asyncio.get_running_loop().time()
    for token, under_way in durations.running.items():
        work = leases[token].work
        if work is not None and work.leaves_doubt:
            continue
        if not durations.may_finish_by(under_way, now, until):
            leases[token].interrupt(InterruptReason.STOPPING)
    for lease in leases.values():
        if lease.work is not None and lease.work.gate.waits_for_release:
            lease.interrupt(InterruptReason.STOPPING)
