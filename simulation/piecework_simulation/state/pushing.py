"""Push what is left of a run to a deployment, so that exactly one of them owns it.

    decide    is it safe?  -> reasons, or nothing
    own       the file says that the run is pushed: it cannot go on here any more
    bring     objects, rows, then the job in one write, then the messages

Tenant and job id stay, because the keys of calls and effects have them. So the journal
and the ledger count there as here. A push that dies is repeated, to the same place.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from piecework.aws.queue import BATCH, Message
from piecework.cost.meter import acting_as
from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.job import Job
from piecework.domain.moments import iso, moment
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.rows import EffectRow
from piecework.domain.states import JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.jobs.fan_out import SENDERS, batched, gather_limited
from piecework.jobs.pausing import open_chunks
from piecework.runtime import Runtime
from piecework.settings import load_settings
from piecework.store.effects import INTENT, UNKNOWN
from piecework.store.pushes import Pushes, has_arrived
from piecework.store.serialization import from_item
from piecework_simulation.in_process import InProcessAws
from piecework_simulation.state.file import StateFile
from piecework_simulation.state.going_on import count_done, free_leases

REFUSED_CODE = "run.push.refused"
#: What helps a job in each other state than RUNNING.
STEPS: Mapping[JobStatus, tuple[str, str]] = {
    JobStatus.SUBMITTING: (
        "its rows are not all read",
        "Type the line of `piecework run` again until its first result.",
    ),
    JobStatus.REOPENING: (
        "a redrive has not ended",
        "Repeat the redrive with this --state.",
    ),
    JobStatus.PAUSED: (
        "it is paused",
        "Resume it with this --state: piecework jobs resume JOB",
    ),
    JobStatus.FINALIZING: (
        "only its join is left",
        "Type the line of `piecework run` again.",
    ),
    JobStatus.CANCELLING: (
        "it is being cancelled",
        "Type the line of `piecework run` again.",
    ),
    JobStatus.CANCELLED: (
        "it was cancelled",
        (
            "Type the line of `piecework run` with a higher budget, or retry it with "
            "this --state: piecework jobs retry JOB --reason WHY"
        ),
    ),
}
#: What helps one that has ended.
ENDED = (
    "nothing of it is left to run",
    (
        "Redrive its dead rows first, with this --state: piecework dlq redrive --job "
        "JOB --reason WHY"
    ),
)


@dataclass(slots=True)
class Rows:
    """The rows of a run, by what a push does with them.

    Attributes:
        meta: The row of the job.
        own: The rows of the job, and what its calls share with other jobs.
        shared: Those of the latter that no other record may contradict.
        lists: Its rows in the lists of jobs, of backlogs too.
        letters: The rows of the table of dead letters.
        effects: Those of all chunks.
    """

    meta: dict[str, Any] = field(default_factory=dict)
    own: list[dict[str, Any]] = field(default_factory=list)
    shared: list[dict[str, Any]] = field(default_factory=list)
    lists: list[dict[str, Any]] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    effects: list[EffectRow] = field(default_factory=list)

    def add(self, ref: JobRef, row: dict[str, Any], *, is_letter: bool) -> None:
        """Add a row; those of workers, limits and the like stay in the file."""
        pk, sk = str(row["pk"]), str(row["sk"])
        is_own = keys.job_of_pk(pk) == (ref.tenant, ref.job)
        if is_letter:
            if is_own or pk == keys.open_letters_pk(ref.tenant):
                self.letters.append(row)
        elif is_own and sk == keys.META_SK:
            self.meta = row
        elif is_own:
            self.own.append(row)
            if keys.EFFECT_ROWS in sk:
                self.effects.append(EffectRow(row))
        elif pk.startswith(keys.idempotency_pk(ref.tenant, "")):
            self.own.append(row)
            self.shared.append(row)
        elif pk.startswith(keys.response_pk(ref.tenant, "")):
            self.own.append(row)
        elif pk == keys.jobs_pk(ref.tenant) or (
            pk == keys.ACTIVE_PK and sk.startswith(keys.BACKLOG_PREFIX)
        ):
            self.lists.append(row)


def rows_of(file: StateFile, ref: JobRef, letters_table: str) -> Rows:
    """Return the rows of the run of a file."""
    rows = Rows()
    for place, item in file.rows():
        rows.add(ref, from_item(item), is_letter=place == letters_table)
    return rows


def unsafe(job: Job, effects: list[EffectRow], now: float) -> Iterator[tuple[str, str]]:
    """Yield each reason why a run must stay here, with what helps."""
    if job.status is not JobStatus.RUNNING:
        yield STEPS.get(job.status, ENDED)
        return
    if not job.sent_at:
        yield STEPS[JobStatus.SUBMITTING]
    doubtful = [row for row in effects if is_in_doubt(row)]
    if doubtful:
        noun = "effect is" if len(doubtful) == 1 else "effects are"
        step = (
            "Look into the other system, then record what you have found, with this "
            "--state: `piecework effects list JOB`. If it lists none, type the line of "
            "`piecework run` again first."
        )
        yield f"{len(doubtful)} {noun} in doubt", step
    left = max((seconds_left(row, now) for row in effects), default=0.0)
    if left > 0:
        yield (
            "the request of an effect may still be executing",
            f"Push again in {ceil(left)} s.",
        )


def is_in_doubt(row: EffectRow) -> bool:
    """Return whether no process can tell if an effect has happened."""
    is_once = row.state == INTENT and row.effect == Effect.NON_IDEMPOTENT
    return row.state == UNKNOWN or is_once


def seconds_left(row: EffectRow, now: float) -> float:
    """Return for how long the request of an effect may still be executing."""
    if row.state != INTENT:
        return 0.0
    return moment(row.started_at) + row.max_duration_s - now


@dataclass(frozen=True, slots=True)
class Pushed:
    """A run that has arrived.

    Attributes:
        done: How many chunks had a result.
    """

    job: str
    chunks: int
    done: int


async def push(file: StateFile, target: Runtime, say: Callable[[str], None]) -> Pushed:
    """Push the run of a file to a deployment; one that was interrupted goes on.

    Raises:
        NotFoundError: `run.state.absent`: the file has no run.
        UsageError: `run.push.refused`, `run.push.taken`.
        StoreError: The deployment cannot be reached; the same line goes on.
    """
    facts = file.facts
    if not facts or file.has_no_job:
        message = f"{file.path} has no run yet."
        raise NotFoundError(message, code="run.state.absent")
    place = place_of(target)
    require_place(facts, target, place)
    here = {name: facts[name] for name in ("app", "env", "tenant")}
    aws = InProcessAws(load_settings(**here))
    file.attach(aws)
    local, ref = aws.runtime(), JobRef(facts["tenant"], facts["job"])
    job = await local.jobs.read(ref)
    if job is None:
        message = f"{file.path} has no run yet."
        raise NotFoundError(message, code="run.state.absent")
    done = await count_done(local, job)
    found = Pushed(ref.job, job.chunks, done)
    if facts.get("pushed_at"):
        say(f"nothing to do: it was pushed at {facts['pushed_at']}")
        return found
    if "push_token" not in facts:
        await free_leases(local, job)
    rows = rows_of(file, ref, aws.settings.dead_letters_table)
    if "push_token" not in facts:
        await require_safe(job, rows, local.clock(), target)
        file.note(push_token=secrets.token_hex(16), pushed_to=place)
    with acting_as("orchestrator"):
        await bring(file, rows, ref, target, say)
    file.note(pushed_at=iso(time.time()))
    return found


def place_of(target: Runtime) -> str:
    """Return which deployment a runtime has, in words that stay the same."""
    endpoint = target.endpoint
    where = endpoint.url or endpoint.region or endpoint.source
    return f"{target.table.name} in {where}"


def require_place(facts: Mapping[str, str], target: Runtime, place: str) -> None:
    """Require the tenant of the run, and the place where its push has begun.

    Raises:
        UsageError: `run.push.refused`.
    """
    tenant, begun = target.settings.tenant, facts.get("pushed_to", place)
    if facts["tenant"] != tenant:
        message = (
            f"The run is one of tenant {facts['tenant']}, and the settings name "
            f"{tenant}: the keys of its calls have the tenant."
        )
        step = f"Set PIECEWORK_TENANT={facts['tenant']}."
        raise UsageError(message, code=REFUSED_CODE, next_step=step)
    if begun != place:
        message = f"The push has begun to {begun}, and the settings name {place}."
        step = "Let the settings name the first one again, and type the same line."
        raise UsageError(message, code=REFUSED_CODE, next_step=step)


async def require_safe(job: Job, rows: Rows, now: float, target: Runtime) -> None:
    """Require that a run can go on elsewhere; nothing was written there yet.

    Raises:
        UsageError: `run.push.refused`, `run.push.taken`.
        StoreError: `aws.queue.not_deployed`.
    """
    if await target.jobs.read(job.ref) is not None:
        raise taken(job.ref)
    for reason, step in unsafe(job, rows.effects, now):
        message = f"The run of job {job.ref.job} cannot be pushed: {reason}."
        raise UsageError(message, code=REFUSED_CODE, next_step=step)
    if any(str(row["sk"]).startswith(keys.CHILD_PREFIX) for row in rows.own):
        message = (
            f"The run of job {job.ref.job} cannot be pushed: its stages have started "
            "child jobs, which would be paid for again there."
        )
        step = "Let the run end here: type the line of `piecework run` again."
        raise UsageError(message, code=REFUSED_CODE, next_step=step)
    for row in rows.shared:
        known = await target.table.get(row["pk"], row["sk"], any_version=True)
        if known is not None and known != row:
            message = (
                f"The run of job {job.ref.job} cannot be pushed: both it and the "
                "deployment have made a call that jobs share by its key (`by=`)."
            )
            step = "Let the run end here: type the line of `piecework run` again."
            raise UsageError(message, code=REFUSED_CODE, next_step=step)
    await target.work.named(job.queue)  # a job without it could not run


async def bring(
    file: StateFile,
    rows: Rows,
    ref: JobRef,
    target: Runtime,
    say: Callable[[str], None],
) -> None:
    """Bring objects and rows, open the job, and send its open chunks.

    Raises:
        UsageError: `run.push.taken`.
    """
    facts = file.facts
    token = facts["push_token"]
    pushes = Pushes(target.table, target.dead_letters, target.clock)
    there = await target.jobs.read(ref)
    if there is None or not has_arrived(there, token):
        if not await pushes.reserve(ref, rows.meta, token):
            raise taken(ref)
        count = 0
        for name, content, media_type in file.objects():
            await target.objects.put(name, content, media_type)
            count += 1
        say(f"brought {count:,} objects; now {len(rows.own):,} rows")
        await pushes.copy(rows.own)
        await pushes.copy_letters(rows.letters)
        told = {"source": facts["source"], "began_at": iso(float(facts["began_at"]))}
        if not await pushes.open(ref, rows.meta, token, rows.lists, told):
            there = await target.jobs.read(ref)
            if there is None or not has_arrived(there, token):
                raise taken(ref)
    job = await target.jobs.read(ref)
    if job is not None and job.status is JobStatus.RUNNING and not job.sent_at:
        await send_open(target, job)
        await target.transitions.sent(ref, job.gen, JobStatus.RUNNING)


def taken(ref: JobRef) -> UsageError:
    """Return the error of a name that another job has."""
    message = f"The deployment has another job {ref.job}, or its push was cancelled."
    return UsageError(message, code="run.push.taken")


async def send_open(rt: Runtime, job: Job) -> None:
    """Send the messages of the open chunks, and wake a worker for the backlog."""

    async def send(refs: list[ChunkRef]) -> None:
        messages = [Message.about(ref, job.gen) for ref in refs]
        await rt.work.send(messages, to=job.queue)

    await gather_limited(send, batched(open_chunks(rt, job), BATCH), SENDERS)
    if job.backlog_start is not None:
        await rt.work.send([Message.about(job.ref.chunk(0), job.gen)], to=job.queue)
