"""The actions on a job, and on an effect in doubt of one of its chunks."""

from __future__ import annotations

import json

from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.errors import UsageError
from piecework_orchestrator.client import Client, JobView
from piecework_orchestrator.cost.job import deletion_terms
from piecework_orchestrator.operate.deletion import lost_letters
from piecework_orchestrator.operate.retry import RetryRequest, find_to_reopen
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.selection import left_out
from piecework_orchestrator.reading.times import count
from piecework_orchestrator.ui.action import Field, Fields, Preview, Subject


async def preview_cancel(client: Client, subject: Subject) -> Preview:
    """Count the chunks that a cancel stops, and those that keep their results."""
    view = await client.job(subject.job).view()
    kept = view.counts.get(ChunkStatus.SUCCEEDED, 0)
    label = "Compensate the effects of open chunks"
    help_ = "Their completed stages are compensated, the last one first."
    return Preview(
        (
            f"{open_chunks(view)} will be stopped.",
            f"{count(kept, 'chunk')} with a result will keep it.",
        ),
        fields=(Field("compensate", label, "checkbox", help_),),
    )


def open_chunks(view: JobView) -> str:
    """Return how many chunks of a job have not ended, in words."""
    ended = sum(view.counts.get(each, 0) for each in ChunkStatus if each.ended)
    return count(view.chunks - ended, "open chunk")


async def cancel(client: Client, subject: Subject, fields: Fields) -> str:
    """Cancel a job."""
    job, compensate = client.job(subject.job), fields.get("compensate") == "on"
    facts = await job.cancel(fields["reason"], compensate=compensate)
    return f"Job {facts.id} is {facts.status}."


async def preview_reopen(client: Client, subject: Subject) -> Preview:
    """Count the chunks that a retry reopens, and those that it leaves dead."""
    job = client.job(subject.job)
    record = await require_job(job.rt, job.id)
    request = RetryRequest(job.ref, "", "")
    found, damaged, discarded = await find_to_reopen(job.rt, record, request)
    sentences = [f"{count(len(found), 'chunk')} without a result will run again."]
    sentences += ["Chunks with a result keep it. Stored answers are not paid again."]
    if discarded:
        sentences.append(f"{count(discarded, 'discarded chunk')} will stay dead.")
    if damaged:
        left = left_out([letter.ref for letter in damaged])
        sentences.append(f"Damaged dead letters are {left}.")
    return Preview(tuple(sentences))


async def retry(client: Client, subject: Subject, fields: Fields) -> str:
    """Retry a job that ended PARTIAL, FAILED or CANCELLED."""
    left: list[ChunkRef] = []
    reopened = await client.job(subject.job).retry(fields["reason"], unreadable=left)
    told = f"{count(reopened, 'chunk')} of job {subject.job} will run again"
    return f"{told}; {left_out(left)}." if left else f"{told}."


async def preview_pause(client: Client, subject: Subject) -> Preview:
    """Count the chunks that a pause keeps waiting."""
    view = await client.job(subject.job).view()
    sentence = f"{open_chunks(view)} will wait; calls in flight finish."
    return Preview((f"{sentence} Its deadline goes on.",))


async def pause(client: Client, subject: Subject, fields: Fields) -> str:
    """Pause a job."""
    facts = await client.job(subject.job).pause(fields["reason"])
    return f"Job {facts.id} is {facts.status}."


async def preview_resume(client: Client, subject: Subject) -> Preview:
    """Say why the job is paused."""
    paused = (await client.job(subject.job).facts()).document.get("pause")
    if paused is None:
        return Preview(("It is not paused.",))
    why = f"{paused['code']}: {paused['message']}"
    return Preview((f"It was paused by {paused['actor']}: {why}.",))


async def resume(client: Client, subject: Subject, fields: Fields) -> str:
    """Resume a paused job."""
    facts = await client.job(subject.job).resume(fields["reason"])
    return f"Job {facts.id} is {facts.status}."


async def preview_unpin(client: Client, subject: Subject) -> Preview:
    """Say which code version the job is pinned to."""
    document = (await client.job(subject.job).facts()).document
    if "pinned_to" not in document:
        return Preview(("It is not pinned.",))
    return Preview(
        (
            f"Only workers of code version {document['pinned_to']} run it now.",
            "Then the newest code goes on wherever that is safe.",
        )
    )


async def unpin(client: Client, subject: Subject, fields: Fields) -> str:
    """Let workers of any code version run a job."""
    facts = await client.job(subject.job).unpin(fields["reason"])
    return f"Job {facts.id} is not pinned any more."


ACCEPTED_COLUMNS = ("stage", "called", "dependency", "state", "number", "if_accepted")


async def preview_accept(client: Client, subject: Subject) -> Preview:
    """Show what newer code would do to each kind of act of earlier claims."""
    found = await client.job(subject.job).changes()
    waiting, dead = count(found["waiting"], "chunk"), count(found["dead"], "chunk")
    sentences = [
        f"{waiting} will go on by newer code; {dead} will need a redrive after it.",
        "An act of an earlier claim may happen twice.",
        "To avoid that, run the version before again: the chunks wait for it.",
    ]
    if not found["exact"]:
        sentences.append("Only the acts of the first stopped chunks are listed.")
    rows = [row | {"if_accepted": row["accepted"]} for row in found["kinds"]]
    label, help_ = "Code version", "Only workers of this version go on; empty: each."
    field = Field("code_version", label, help=help_)
    return Preview(tuple(sentences), tuple(rows), ACCEPTED_COLUMNS, (field,))


async def accept(client: Client, subject: Subject, fields: Fields) -> str:
    """Let newer code go on with the chunks that it has stopped."""
    version = fields.get("code_version", "").strip()
    facts = await client.job(subject.job).accept_changes(fields["reason"], version)
    return f"Newer code goes on with the chunks of job {facts.id}."


async def preview_delete(client: Client, subject: Subject) -> Preview:
    """Count what a deletion removes, and say what it takes."""
    job = client.job(subject.job)
    view = await job.view()
    results = view.counts.get(ChunkStatus.SUCCEEDED, 0)
    data = f"{count(view.chunks, 'chunk')} with {count(results, 'result')}"
    sentences = [
        f"{data}, all payloads and all files will be deleted for good.",
        "A tombstone stays: the hash of the certificate, the operator and the reason.",
    ]
    if lost := await lost_letters(job.rt, job.id):
        sentences.insert(1, f"{lost} will be deleted, too.")
    record = await require_job(job.rt, job.id)
    if record.status.ended:
        sentences.append(f"This {await deletion_terms(job.rt, record)}.")
    return Preview(tuple(sentences))


async def delete(client: Client, subject: Subject, fields: Fields) -> str:
    """Delete a job."""
    facts = await client.job(subject.job).delete(fields["reason"])
    return f"Job {facts.id} is {facts.status}."


# ── an effect in doubt ────────────────────────────────────────────────────────


ANSWER_HELP = "The JSON value that the call returned; only if it happened."
OUTCOMES = (
    ("happened", "The effect happened"),
    ("did-not-happen", "The effect did not happen"),
)


async def preview_resolve(client: Client, subject: Subject) -> Preview:
    """Show an effect in doubt, and ask whether it happened."""
    job = client.job(subject.job)
    found = [row async for row in job.effects(subject.one_chunk)]
    rows = tuple(row for row in found if row["effect_key"].startswith(subject.effect))
    return Preview(
        ("Check in the other system whether this effect happened.",),
        rows,
        ("stage", "effect", "started_at", "effect_key"),
        (
            Field("outcome", "Outcome", "select", options=OUTCOMES, required=True),
            Field("answer", "Its answer", "json", ANSWER_HELP),
        ),
    )


async def resolve(client: Client, subject: Subject, fields: Fields) -> str:
    """Record whether an effect in doubt happened.

    Raises:
        UsageError: `cli.usage.invalid`: no outcome, or an answer that does not fit it.
    """
    outcome, text = fields.get("outcome"), fields.get("answer", "").strip()
    if outcome not in {"happened", "did-not-happen"}:
        message = "Choose whether the effect happened."
        raise UsageError(message)
    happened = outcome == "happened"
    if happened is not bool(text):
        message = "An effect that happened has an answer; one that did not has none."
        raise UsageError(message)
    try:
        answer = json.loads(text) if happened else None
    except ValueError as error:
        message = f"The answer is not JSON: {error}."
        raise UsageError(message) from None
    done = await client.job(subject.job).resolve_effect(
        subject.one_chunk,
        subject.effect,
        fields["reason"],
        happened=happened,
        answer=answer,
    )
    return f"The effect is {done['state']}."
