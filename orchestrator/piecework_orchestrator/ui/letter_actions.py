"""The actions on dead letters: of a cause, of a job, or of one chunk.

An action changes exactly the dead letters that its page counted. The form has a hash of
them. If other dead letters match by then, the action is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.refs import ChunkRef
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework.store.checkpoints import read_work
from piecework.store.results import NULL
from piecework_orchestrator.client import Client, Edit, HandOutcome, RedriveOptions
from piecework_orchestrator.dead_letters.canary import Verdict
from piecework_orchestrator.dead_letters.compensate import only_uncompensated
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.dead_letters.redrive import NOTHING_LEFT
from piecework_orchestrator.operate.run_again import (
    RunAgain,
    dead_chunks,
    preview_run_again,
    unknown_stage,
)
from piecework_orchestrator.reading.times import count
from piecework_orchestrator.ui.action import Field, Fields, Preview, Subject

#: Dead letters that a preview lists.
MAX_LISTED = 20
#: Seconds that a canary waits for all of its waves.
CANARY_TIMEOUT_S = 3600.0
#: The hidden field with the mark of the dead letters that a page has counted.
SHOWN: Final = "shown"


async def letters_of(client: Client, subject: Subject) -> list[DeadLetterRow]:
    """Return the open dead letters of a subject that can be read, the newest first."""
    if subject.picked:
        return await picked_letters(client, subject)
    of = client.job(subject.job) if subject.job else client
    return await of.dead_letters(unreadable=[], **subject.filters)


async def picked_letters(client: Client, subject: Subject) -> list[DeadLetterRow]:
    """Return the open dead letters of selected chunks, the newest first."""
    found: list[DeadLetterRow] = []
    for job, chunks in subject.picked_chunks.items():
        filters = subject.filters | {"chunks": chunks}
        found += await client.job(job).dead_letters(unreadable=[], **filters)
    return sorted(found, key=lambda letter: letter.dead_lettered_at, reverse=True)


async def shown_letters(
    client: Client,
    subject: Subject,
    fields: Fields,
    pick: Callable[[Sequence[DeadLetterRow]], list[DeadLetterRow]] = list,
) -> list[DeadLetterRow]:
    """Return the dead letters that the page of a form has counted, the newest first.

    Raises:
        UsageError: `redrive.selection.empty`: all are closed; `cli.usage.invalid`:
            these are others, which the operator has not seen.
    """
    found = pick(await letters_of(client, subject))
    if not found:
        message = f"No dead letter of {subject} is open any more."
        raise UsageError(message, code=NOTHING_LEFT)
    if fields.get(SHOWN) != mark_of(found):
        message = "The dead letters have changed since the page was shown."
        step = "Look at them again, then repeat the action."
        raise UsageError(message, next_step=step)
    return found


def mark_of(letters: Sequence[DeadLetterRow]) -> str:
    """Return a hash that only these dead letters have, in any order."""
    names = sorted(f"{letter.ref} {letter.gen}" for letter in letters)
    return keys.sha256("\n".join(names).encode())


def list_letters(
    subject: Subject, letters: Sequence[DeadLetterRow], *columns: str, which: str = ""
) -> Preview:
    """Count the dead letters that will change, and list the first of them."""
    names = (*(() if subject.job else ("job",)), "chunk", *columns)
    rows = tuple(
        {name: letter.facts.get(name, "") for name in names}
        | {"chunk": chunk_name(letter.chunk)}
        for letter in letters[:MAX_LISTED]
    )
    number = count(len(letters), "open dead letter")
    sentences = [f"{number} of {subject}{which} will change."]
    if len(letters) > MAX_LISTED:
        sentences.append(f"Not listed: {len(letters) - MAX_LISTED:,} more.")
    return Preview(tuple(sentences), rows, names, shown=mark_of(letters))


async def preview_letters(client: Client, subject: Subject) -> Preview:
    """List the open dead letters that match."""
    found = await letters_of(client, subject)
    return list_letters(subject, found, "label", "error_code", "error")


async def preview_redrive(client: Client, subject: Subject) -> Preview:
    """List the dead letters, and ask for the size of the first wave."""
    first = Field(
        "canary",
        "Chunks in the first wave",
        "number",
        "Further waves follow if no chunk of it dies of the same cause. "
        "0 redrives all at once.",
        "1",
        required=True,
    )
    return replace(await preview_letters(client, subject), fields=(first,))


async def redrive(client: Client, subject: Subject, fields: Fields) -> str:
    """Redrive dead letters, all at once or in the waves of a canary."""
    text = fields.get("canary", "")
    if not text.isascii() or not text.isdigit():
        message = f"{text!r} is not a number of chunks."
        raise UsageError(message, next_step="Use 0, 1 or more.")
    said: list[str] = []
    options = RedriveOptions(
        canary=int(text), timeout_s=CANARY_TIMEOUT_S, remark=said.append
    )
    letters = await shown_letters(client, subject, fields)
    done = await client.redrive(letters[::-1], fields["reason"], options)
    ended = done.verdict is Verdict.CONTINUE
    stopped = "" if ended else f" The canary stopped: {done.verdict}."
    left = f" {count(done.remaining, 'dead letter')} remain." if done.remaining else ""
    redriven = f"{count(done.count, 'dead letter')} redriven.{stopped}{left}"
    return " ".join([redriven, *said])


async def preview_edit(client: Client, subject: Subject) -> Preview:
    """Show the payload of a dead chunk, to be changed."""
    found = await letters_of(client, subject)
    letter = await client.job(subject.job).dead_letter(subject.one_chunk)
    sentences = [f"{subject} will run again with this payload.".capitalize()]
    text = json.dumps(letter.get("payload"), indent=2, ensure_ascii=False)
    if why := letter.get("payload_error"):
        sentences.append(f"Its present payload cannot be read: {why}.")
        text = ""
    help_ = "The worker validates it; the record keeps the difference."
    field = Field("payload", "Payload", "json", help_, text, required=True)
    return Preview(tuple(sentences), fields=(field,), shown=mark_of(found))


async def edit(client: Client, subject: Subject, fields: Fields) -> str:
    """Redrive a dead chunk with a new payload."""
    try:
        payload = json.loads(fields.get("payload", ""))
    except ValueError as error:
        message = f"The payload is not JSON: {error}."
        raise UsageError(message, code="redrive.payload.invalid") from None
    options = RedriveOptions(edit=Edit(payload, whole=True))
    letters = await shown_letters(client, subject, fields)
    done = await client.redrive(letters, fields["reason"], options)
    return f"{count(done.count, 'dead letter')} redriven with a new payload."


AGAIN_COLUMNS: Final = ("stage", "called", "state", "number", "if_it_runs_again")
WORD: Final = Field(
    "repeats",
    "Acts of these stages may happen twice",
    "checkbox",
    "Without it, a chunk whose stages have acted is refused.",
)


async def preview_again(client: Client, subject: Subject) -> Preview:
    """Show what running chunks again from a stage repeats."""
    return await show_again(client, subject, "run again from stage {}", (WORD,))


async def show_again(
    client: Client,
    subject: Subject,
    verb: str,
    fields: Sequence[Field],
    value: str = "",
) -> Preview:
    """List the stages to choose from, or what the chosen one repeats."""
    rt, found = client.runtime, await letters_of(client, subject)
    if not subject.stage:
        return Preview(
            ("Choose the completed stage.",),
            choices=tuple(
                (name, subject.query | {"stage": name})
                for name in await stages_of(client, found)
            ),
        )
    wanted = RunAgain(subject.stage, value or None)
    plan = await preview_run_again(rt, dead_chunks(rt, found), wanted)
    rows = tuple(kind | {"if_it_runs_again": kind["again"]} for kind in plan.kinds)
    again, usual = count(plan.again, "chunk"), count(plan.as_usual, "chunk")
    does = verb.format(subject.stage)
    sentences = [f"{again} will {does}. {usual} will continue without it."]
    for code, number in plan.refused.items():
        sentences.append(f"{count(number, 'chunk')} would be refused: {code}.")
    if not plan.exact:
        sentences.append("Only the first chunks were read.")
    told, mark = tuple(sentences), mark_of(found)
    return Preview(told, rows, AGAIN_COLUMNS, fields, shown=mark)


async def stages_of(client: Client, letters: Sequence[DeadLetterRow]) -> list[str]:
    """Return the stages that the first chunks of dead letters have completed."""
    names = dict[str, None]()
    chunks = dead_chunks(client.runtime, letters[:MAX_LISTED])
    async for _, chunk in chunks:
        names |= dict.fromkeys(chunk.stages)
    return list(names)


async def run_again(client: Client, subject: Subject, fields: Fields) -> str:
    """Redrive dead letters from a completed stage."""
    wanted = RunAgain(subject.stage, None, fields.get("repeats") == "on")
    letters, options = await shown_letters(client, subject, fields), RedriveOptions
    done = await client.redrive(letters, fields["reason"], options(again=wanted))
    return f"{count(done.count, 'dead letter')} redriven from stage {subject.stage}."


async def preview_edit_value(client: Client, subject: Subject) -> Preview:
    """Show the value of a completed stage, to be changed."""
    text = ""
    if subject.stage:
        ref = client.job(subject.job).ref.chunk(subject.one_chunk)
        text = await stage_value(client.runtime, ref, subject.stage)
    help_ = "It takes the place of the stage's value; the chunk goes on after it."
    field = Field("value", "Value", "json", help_, text, required=True)
    verb = "take the new value of stage {}"
    return await show_again(client, subject, verb, (field, WORD), text)


async def stage_value(rt: Runtime, ref: ChunkRef, stage: str) -> str:
    """Return the value of a completed stage as JSON text.

    Raises:
        UsageError: `redrive.stage.unknown`.
    """
    work = await read_work(rt.table, ref)
    if stage not in work.entries:
        raise unknown_stage(stage, work.entries)
    (row,) = [row for row in work.stages if row.stage == stage]
    prefix = keys.object_prefix(ref.tenant, ref.job)
    value = await rt.objects.get_value(row, prefix) if row.has_value else NULL
    return json.dumps(json.loads(value), indent=2, ensure_ascii=False)


async def edit_value(client: Client, subject: Subject, fields: Fields) -> str:
    """Redrive a dead chunk with another value of a completed stage."""
    value, word = fields.get("value", ""), fields.get("repeats") == "on"
    wanted = RunAgain(subject.stage, value, word)
    letters, options = await shown_letters(client, subject, fields), RedriveOptions
    done = await client.redrive(letters, fields["reason"], options(again=wanted))
    redriven = count(done.count, "dead letter")
    return f"{redriven} redriven with a new value of stage {subject.stage}."


async def preview_compensate(client: Client, subject: Subject) -> Preview:
    """List the dead letters with a failed compensation, and ask what was done."""
    found = only_uncompensated(await letters_of(client, subject))
    outcome = Field(
        "outcome",
        "Resolved by hand",
        help="compensated: you undid the effects. not-needed: they may remain. "
        "Empty: the failed compensations run again.",
    )
    columns, which = ("stage", "uncompensated_stages"), " with a failed compensation"
    listed = list_letters(subject, found, *columns, "compensation", which=which)
    return replace(listed, fields=(outcome,))


async def compensate(client: Client, subject: Subject, fields: Fields) -> str:
    """Run failed compensations again, or record what was done by hand."""
    text = fields.get("outcome", "").strip()
    if text and text not in set(HandOutcome):
        message = f"{text} is not an outcome."
        raise UsageError(message, next_step="Use compensated or not-needed.")
    outcome = HandOutcome(text) if text else None
    letters = await shown_letters(client, subject, fields, only_uncompensated)
    said: list[str] = []
    reason = fields["reason"]
    done = await client.compensate(letters, reason, outcome, remark=said.append)
    word = "resolved" if outcome else "run again"
    return " ".join([f"{count(sum(done.values()), 'compensation')} {word}.", *said])


async def discard(client: Client, subject: Subject, fields: Fields) -> str:
    """Discard dead letters."""
    letters = await shown_letters(client, subject, fields)
    done = await client.discard(letters, fields["reason"])
    return f"{count(sum(done.values()), 'dead letter')} discarded."
