"""The actions of the page: what each would touch, and the change itself.

Each action is a method of the client, so the page and the command line change the same
record in the same way. Every action asks for a reason; the record keeps it with the
operator.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from piecework.client import Client, Edit, RedriveOptions
from piecework.domain.model import ChunkStatus
from piecework.errors import UsageError
from piecework.store.dead_letters import DISCARDED
from piecework_orchestrator.inspector import Document
from piecework_orchestrator.selection import LetterFilter

#: Dead letters that a preview lists.
MAX_LISTED = 20
#: Seconds that a canary waits for all of its waves.
CANARY_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an action's form; `kind` is that of an HTML input, or `json`."""

    name: str
    label: str
    kind: str = "text"
    help: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would touch now.

    Attributes:
        sentences: For the operator, before the form.
        rows: The things that it touches, as documents with the keys of `columns`.
        fields: The fields of the form, without the reason.
    """

    sentences: tuple[str, ...]
    rows: tuple[Document, ...] = ()
    columns: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What an action is about, from its address.

    Attributes:
        job, fingerprint, effect: Empty: not given.
        chunk: The number of a chunk; None: not given.
    """

    job: str = ""
    chunk: int | None = None
    fingerprint: str = ""
    effect: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The query of the address."""
        found = {"job": self.job, "fingerprint": self.fingerprint}
        found |= {"effect": self.effect}
        found |= {} if self.chunk is None else {"chunk": str(self.chunk)}
        return {name: value for name, value in found.items() if value}

    @property
    def filters(self) -> LetterFilter:
        """The filters of dead letters."""
        filters: LetterFilter = {}
        if self.fingerprint:
            filters["fingerprint"] = self.fingerprint
        if self.chunk is not None:
            filters["chunks"] = [self.chunk]
        return filters

    def __str__(self) -> str:
        """Return the subject in words."""
        words = [f"job {self.job}"] if self.job else []
        words += [] if self.chunk is None else [f"chunk {self.chunk}"]
        words += [f"cause {self.fingerprint}"] if self.fingerprint else []
        return ", ".join(words) or "all jobs"


Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Action:
    """An action.

    Attributes:
        title: Of its page and its button.
        preview: Reads what it would touch.
        perform: Does it; returns a sentence about the outcome.
        shows_payload: Whether its form shows a payload.
    """

    title: str
    preview: Callable[[Client, Subject], Awaitable[Preview]]
    perform: Callable[[Client, Subject, Fields], Coroutine[None, None, str]]
    shows_payload: bool = False


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


# ── a job ─────────────────────────────────────────────────────────────────────


async def preview_cancel(client: Client, subject: Subject) -> Preview:
    """Count the chunks that a cancel stops, and those that keep their results."""
    view = await client.job(subject.job).view()
    kept = view.counts.get(ChunkStatus.SUCCEEDED, 0)
    ended = sum(view.counts.get(each, 0) for each in ChunkStatus if each.terminal)
    return Preview(
        (
            f"{count(view.chunks - ended, 'open chunk')} will be stopped.",
            f"{count(kept, 'chunk')} with a result will keep it.",
        ),
        fields=(
            Field(
                "compensate",
                "Compensate the effects of open chunks",
                "checkbox",
                "Their completed stages are undone, the last one first.",
            ),
        ),
    )


async def cancel(client: Client, subject: Subject, fields: Fields) -> str:
    """Cancel a job."""
    job, compensate = client.job(subject.job), fields.get("compensate") == "on"
    facts = await job.cancel(fields["reason"], compensate=compensate)
    return f"Job {facts.id} is {facts.status}."


async def preview_reopen(client: Client, subject: Subject) -> Preview:
    """Count the chunks without a result; those that were discarded stay dead."""
    job = client.job(subject.job)
    view = await job.view()
    letters = await job.dead_letters(closed=True)
    discarded = len({one.chunk for one in letters if one.state == DISCARDED})
    left = view.chunks - view.counts.get(ChunkStatus.SUCCEEDED, 0) - discarded
    sentences = [f"{count(left, 'chunk')} without a result will run again."]
    sentences += ["Chunks with a result keep it; answered calls are not paid again."]
    if discarded:
        sentences.append(f"{count(discarded, 'discarded chunk')} will stay dead.")
    return Preview(tuple(sentences))


async def retry(client: Client, subject: Subject, fields: Fields) -> str:
    """Retry a job that ended PARTIAL, FAILED or CANCELLED."""
    reopened = await client.job(subject.job).retry(fields["reason"])
    return f"{count(reopened, 'chunk')} of job {subject.job} will run again."


async def preview_pause(client: Client, subject: Subject) -> Preview:
    """Count the chunks that a pause keeps waiting."""
    view = await client.job(subject.job).view()
    ended = sum(view.counts.get(each, 0) for each in ChunkStatus if each.terminal)
    sentence = f"{count(view.chunks - ended, 'open chunk')} will wait"
    return Preview((f"{sentence}; calls in flight finish. Its deadline goes on.",))


async def pause(client: Client, subject: Subject, fields: Fields) -> str:
    """Pause a job."""
    facts = await client.job(subject.job).pause(fields["reason"])
    return f"Job {facts.id} is {facts.status}."


async def preview_resume(client: Client, subject: Subject) -> Preview:
    """Say why the job is paused."""
    paused = (await client.job(subject.job).facts()).document.get("pause", {})
    why = f"{paused.get('code', '')}: {paused.get('message', '')}"
    return Preview((f"It was paused by {paused.get('actor', '')}: {why}.",))


async def resume(client: Client, subject: Subject, fields: Fields) -> str:
    """Resume a paused job."""
    facts = await client.job(subject.job).resume(fields["reason"])
    return f"Job {facts.id} is {facts.status}."


async def preview_delete(client: Client, subject: Subject) -> Preview:
    """Count what a deletion removes."""
    job = client.job(subject.job)
    view, letters = await job.view(), await job.dead_letters()
    results = view.counts.get(ChunkStatus.SUCCEEDED, 0)
    data = f"{count(view.chunks, 'chunk')} with {count(results, 'result')}"
    sentences = [
        f"{data}, all payloads and all files will be deleted for good.",
        "A tombstone stays: the hash of the certificate, the operator and the reason.",
    ]
    if letters:
        open_ = count(len(letters), "open dead letter")
        sentences.insert(1, f"{open_} will be deleted, too.")
    return Preview(tuple(sentences))


async def delete(client: Client, subject: Subject, fields: Fields) -> str:
    """Delete a job."""
    facts = await client.job(subject.job).delete(fields["reason"])
    return f"Job {facts.id} is {facts.status}."


# ── dead letters ──────────────────────────────────────────────────────────────


async def letters_of(client: Client, subject: Subject) -> list[Any]:
    """Return the open dead letters of a subject, the newest first."""
    if subject.job:
        return await client.job(subject.job).dead_letters(**subject.filters)
    return await client.dead_letters(**subject.filters)


async def preview_letters(client: Client, subject: Subject) -> Preview:
    """List the open dead letters that match."""
    found = await letters_of(client, subject)
    columns = ("job", "chunk", "label", "error_code", "error")
    rows = tuple(
        {name: letter.facts.get(name, "") for name in columns}
        for letter in found[:MAX_LISTED]
    )
    more = len(found) - len(rows)
    sentences = [f"{count(len(found), 'open dead letter')} of {subject} will change."]
    sentences += [f"{count(more, 'more')[:-1]} are not listed."] if more > 0 else []
    return Preview(tuple(sentences), rows, columns)


async def preview_redrive(client: Client, subject: Subject) -> Preview:
    """List the dead letters, and ask for the size of the first wave."""
    found = await preview_letters(client, subject)
    first = Field(
        "canary",
        "Chunks in the first wave",
        "number",
        "Further waves follow if no chunk of it dies of the same cause. "
        "0 redrives all at once.",
        "1",
    )
    return Preview(found.sentences, found.rows, found.columns, (first,))


async def redrive(client: Client, subject: Subject, fields: Fields) -> str:
    """Redrive dead letters, all at once or in the waves of a canary."""
    text = fields.get("canary") or "0"
    if not text.isascii() or not text.isdigit():
        message = f"{text} is not a number of chunks."
        raise UsageError(message, next_step="Use 0, 1 or more.")
    options = RedriveOptions(canary=int(text), timeout_s=CANARY_TIMEOUT_S)
    letters = await letters_of(client, subject)
    done = await client.redrive(letters[::-1], fields["reason"], options)
    stopped = "" if not done.remaining else f" The canary stopped: {done.verdict}."
    left = f" {count(done.remaining, 'dead letter')} remain." if done.remaining else ""
    return f"{count(done.count, 'dead letter')} redriven.{stopped}{left}"


async def preview_edit(client: Client, subject: Subject) -> Preview:
    """Show the payload of a dead chunk, to be changed."""
    letter = await client.job(subject.job).dead_letter(subject.chunk or 0)
    text = json.dumps(letter.get("payload"), indent=2, ensure_ascii=False)
    help_ = "The worker validates it; the record keeps the difference."
    return Preview(
        (f"{subject} will run again with this payload.".capitalize(),),
        fields=(Field("payload", "Payload", "json", help_, text),),
    )


async def edit(client: Client, subject: Subject, fields: Fields) -> str:
    """Redrive a dead chunk with a new payload."""
    try:
        payload = json.loads(fields.get("payload", ""))
    except ValueError as error:
        message = f"The payload is not JSON: {error}."
        raise UsageError(message, code="redrive.payload.invalid") from None
    options = RedriveOptions(edit=Edit(payload, whole=True))
    job = client.job(subject.job)
    done = await job.redrive(fields["reason"], options, **subject.filters)
    return f"{count(done.count, 'dead letter')} redriven with a new payload."


async def discard(client: Client, subject: Subject, fields: Fields) -> str:
    """Discard dead letters."""
    letters = await letters_of(client, subject)
    done = await client.discard(letters, fields["reason"])
    return f"{count(sum(done.values()), 'dead letter')} discarded."


# ── an effect in doubt ────────────────────────────────────────────────────────


async def preview_resolve(client: Client, subject: Subject) -> Preview:
    """Show an effect in doubt, and ask whether it happened."""
    job = client.job(subject.job)
    found = [row async for row in job.effects(subject.chunk)]
    rows = tuple(row for row in found if row["effect_key"] == subject.effect)
    return Preview(
        ("Check in the other system whether this effect happened.",),
        rows,
        ("stage", "effect", "started_at", "effect_key"),
        (
            Field("happened", "The effect happened", "checkbox"),
            Field(
                "answer",
                "Its answer",
                "json",
                "The JSON value that the call returned; only if it happened.",
                "null",
            ),
        ),
    )


async def resolve(client: Client, subject: Subject, fields: Fields) -> str:
    """Record whether an effect in doubt happened."""
    happened = fields.get("happened") == "on"
    try:
        answer = json.loads(fields.get("answer") or "null")
    except ValueError as error:
        message = f"The answer is not JSON: {error}."
        raise UsageError(message) from None
    done = await client.job(subject.job).resolve_effect(
        subject.chunk or 0,
        subject.effect,
        fields["reason"],
        happened=happened,
        answer=answer,
    )
    return f"The effect is {done['state']}."


#: The actions by the name in their address.
ACTIONS: Final = {
    "cancel": Action("Cancel the job", preview_cancel, cancel),
    "retry": Action("Retry the job", preview_reopen, retry),
    "pause": Action("Pause the job", preview_pause, pause),
    "resume": Action("Resume the job", preview_resume, resume),
    "delete": Action("Delete the job", preview_delete, delete),
    "redrive": Action("Redrive dead letters", preview_redrive, redrive),
    "edit": Action(
        "Edit the payload and redrive", preview_edit, edit, shows_payload=True
    ),
    "discard": Action("Discard dead letters", preview_letters, discard),
    "resolve": Action("Resolve the effect", preview_resolve, resolve),
}
#: The actions that a job in each status offers.
OFFERED: Final = {
    "SUBMITTING": ("cancel",),
    "RUNNING": ("pause", "cancel"),
    "PAUSED": ("resume", "cancel"),
    "SUCCEEDED": ("delete",),
    "PARTIAL": ("retry", "delete"),
    "FAILED": ("retry", "delete"),
    "CANCELLED": ("retry", "delete"),
}
