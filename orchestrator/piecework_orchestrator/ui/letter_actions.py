"""The actions on dead letters: of a cause, of a job, or of one chunk."""

from __future__ import annotations

import json
from typing import Any

from piecework.client import Client, Edit, HandOutcome, RedriveOptions
from piecework.errors import UsageError
from piecework_orchestrator.canary import Verdict
from piecework_orchestrator.compensate import only_uncompensated
from piecework_orchestrator.ui.action import Field, Fields, Preview, Subject, count

#: Dead letters that a preview lists.
MAX_LISTED = 20
#: Seconds that a canary waits for all of its waves.
CANARY_TIMEOUT_S = 3600.0


async def letters_of(client: Client, subject: Subject) -> list[Any]:
    """Return the open dead letters of a subject, the newest first."""
    if subject.job:
        return await client.job(subject.job).dead_letters(**subject.filters)
    return await client.dead_letters(**subject.filters)


def of_jobs(subject: Subject) -> tuple[str, ...]:
    """Return the column of the job, unless the subject names one."""
    return () if subject.job else ("job",)


async def preview_letters(client: Client, subject: Subject) -> Preview:
    """List the open dead letters that match."""
    found = await letters_of(client, subject)
    columns = (*of_jobs(subject), "chunk", "label", "error_code", "error")
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
    said: list[str] = []
    options = RedriveOptions(
        canary=int(text), timeout_s=CANARY_TIMEOUT_S, remark=said.append
    )
    letters = await letters_of(client, subject)
    done = await client.redrive(letters[::-1], fields["reason"], options)
    ended = done.verdict is Verdict.CONTINUE
    stopped = "" if ended else f" The canary stopped: {done.verdict}."
    left = f" {count(done.remaining, 'dead letter')} remain." if done.remaining else ""
    redriven = f"{count(done.count, 'dead letter')} redriven.{stopped}{left}"
    return " ".join([redriven, *said])


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


async def preview_compensate(client: Client, subject: Subject) -> Preview:
    """List the dead letters with a failed compensation, and ask what was done."""
    found = only_uncompensated(await letters_of(client, subject))
    columns = (*of_jobs(subject), "chunk", "stage", "uncompensated_stages")
    columns += ("compensation",)
    rows = tuple(
        {name: letter.facts.get(name, "") for name in columns}
        for letter in found[:MAX_LISTED]
    )
    outcome = Field(
        "outcome",
        "Resolved by hand",
        help="compensated: you undid the effects. not-needed: they may remain. "
        "Empty: the failed compensations run again.",
    )
    number = count(len(found), "dead letter")
    sentence = f"{number} of {subject} with a failed compensation will change."
    return Preview((sentence,), rows, columns, (outcome,))


async def compensate(client: Client, subject: Subject, fields: Fields) -> str:
    """Run failed compensations again, or record what was done by hand."""
    text = fields.get("outcome", "").strip()
    if text and text not in set(HandOutcome):
        message = f"{text} is not an outcome."
        raise UsageError(message, next_step="Use compensated or not-needed.")
    outcome = HandOutcome(text) if text else None
    letters = await letters_of(client, subject)
    said: list[str] = []
    reason = fields["reason"]
    done = await client.compensate(letters, reason, outcome, remark=said.append)
    word = "resolved" if outcome else "run again"
    return " ".join([f"{count(sum(done.values()), 'compensation')} {word}.", *said])


async def discard(client: Client, subject: Subject, fields: Fields) -> str:
    """Discard dead letters."""
    letters = await letters_of(client, subject)
    done = await client.discard(letters, fields["reason"])
    return f"{count(sum(done.values()), 'dead letter')} discarded."
