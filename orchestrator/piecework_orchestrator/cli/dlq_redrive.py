"""Redrive the selected dead letters, job by job or in waves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from piecework.aws.objects import MOST_BYTES
from piecework.domain.model import JobRef
from piecework.domain.outcome import Compensation
from piecework.domain.records import Bounds, JsonRefusedError, read_json
from piecework.errors import NotFoundError, UsageError
from piecework.loading import load_pipeline
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime
from piecework_orchestrator.canary import (
    CanaryRequest,
    CanaryResult,
    Verdict,
    WaveResult,
    canary,
)
from piecework_orchestrator.cli.dlq_plan import Plan
from piecework_orchestrator.cli.dlq_select import Letter, chunk_name
from piecework_orchestrator.cli.output import Column, Document, Output, print_table
from piecework_orchestrator.cli.progress import CANCELLED, DEAD_LETTERS_LEFT, OK
from piecework_orchestrator.cli.submit import whoami
from piecework_orchestrator.cli.times import parse_limit
from piecework_orchestrator.cli.views.dead_letters import letter_columns, letter_line
from piecework_orchestrator.redrive import Edit, RedriveRequest, edit_payload, redrive


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    """The options of `dlq redrive` other than its filters.

    Attributes:
        canary: The size of the first wave; 0: redrive all at once.
    """

    reason: str
    edit: Edit | None = None
    rate: float | None = None
    canary: int = 0
    timeout_s: float | None = None

    def request(self, ref: JobRef, letters: Sequence[Letter]) -> RedriveRequest:
        """Return the redrive of dead letters of a job."""
        return RedriveRequest(ref, letters, whoami(), self.reason, self.rate, self.edit)


def read_options(
    reason: str, edit: Edit | None, rate: float | None, canary: int, timeout: str
) -> RedriveOptions:
    """Return the options if they fit together.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if timeout and not canary:
        message = "--timeout is valid only with --canary."
        raise UsageError(message, next_step="Add --canary K.")
    return RedriveOptions(reason, edit, rate, canary, parse_limit(timeout))


def warn_of_edit(out: Output, plan: Plan, payloads: NewPayloads) -> None:
    """Write what a new payload does not change, and which effects it may repeat."""
    if not payloads:
        return
    out.say("completed stages keep their results; the other stages get the new payload")
    if count := count_not_compensated(plan.letters):
        out.say(
            f"warning: {count} of them have effects that were not compensated, and a "
            "new payload may repeat these; check `piecework chunks show` first"
        )


def show_redrive(rt: Runtime, out: Output, plan: Plan, payloads: NewPayloads) -> None:
    """Write the dead letters that would be redriven, and their new payloads."""
    lines = [
        letter_line(letter)
        | ({"new_payload": payloads[position]} if position in payloads else {})
        for position, letter in enumerate(plan.letters)
    ]
    out.rows(lines, letter_columns(rt.clock(), all_=False), "")
    if payloads:
        out.say(f"{len(payloads)} would get a new payload; `-o json` shows each")
    out.say(f"{plan} would be redriven; nothing was changed")


async def redrive_plan(
    rt: Runtime, out: Output, plan: Plan, options: RedriveOptions
) -> int:
    """Redrive the planned dead letters; return the exit code.

    Raises:
        PieceworkError: Why the last job could not be redriven, if no job could.
    """
    if options.canary:
        return await redrive_in_waves(rt, out, plan.letters, options)
    done = await redrive_at_once(rt, out, plan, options)
    columns = [
        Column("JOB", "job"),
        Column("REDRIVEN", "redriven", right=True),
        Column("GENERATION", "gen", right=True),
    ]
    out.rows(done, columns, "no dead letter was redriven")
    if done and out.table:
        out.say(f"next: piecework jobs watch {done[0]['job']}")
    return 0


async def redrive_at_once(
    rt: Runtime, out: Output, plan: Plan, options: RedriveOptions
) -> list[dict[str, object]]:
    """Redrive job by job; report a job that cannot be redriven, and continue.

    Raises:
        PieceworkError: Why the last job could not be redriven, if no job could.
    """
    done: list[dict[str, object]] = []
    jobs = len(plan.by_job)
    for number, (ref, letters) in enumerate(plan.by_job.items(), 1):
        try:
            count, gen = await redrive(rt, options.request(ref, letters))
        except (UsageError, NotFoundError) as error:
            if number == jobs and not done:
                raise
            out.say(f"job {ref.job} is skipped: {error.code}: {error.message}")
            continue
        done.append({"job": ref.job, "redriven": count, "gen": gen})
    return done


# Read a new payload or a patch from the command line, and preview its effect.

#: Compensation states in which effects of the dead chunk are still in force, or may be.
NOT_COMPENSATED = {
    Compensation.FAILED,
    Compensation.PAST_PIVOT,
    Compensation.PIVOT_UNKNOWN,
    Compensation.ABANDONED,
}
#: The new payload of each dead letter that gets one, by its position in the list.
NewPayloads: TypeAlias = dict[int, Any]


async def read_edit(file: str, patch: str) -> dict[str, Any] | None:
    """Return the JSON object of `--edit FILE` or `--patch JSON`; None without either.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.payload.invalid`.
    """
    if file and patch:
        message = "--edit and --patch exclude each other."
        raise UsageError(message, next_step="Remove --edit or --patch.")
    if not (file or patch):
        return None
    text = await asyncio.to_thread(read_text, Path(file)) if file else patch
    try:
        found = read_json(text, Bounds(MOST_BYTES))
    except JsonRefusedError as error:
        message = f"{file or '--patch'} is not valid JSON: {error}."
        raise UsageError(message, code="redrive.payload.invalid") from error
    if not isinstance(found, dict):
        message = f"{file or '--patch'} is not a JSON object."
        raise UsageError(message, code="redrive.payload.invalid")
    return found


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:  # not text, or not a path
        message = f"{str(path)!r} cannot be read: {type(error).__name__}."
        raise UsageError(message, next_step="Name a JSON file.") from error


async def make_edit(file: str, patch: str, pipeline: str) -> Edit | None:
    """Return the change of payloads that was typed; None: the payloads stay.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.payload.invalid`.
    """
    value = await read_edit(file, patch)
    if value is None:
        if pipeline:
            message = "--pipeline checks new payloads, and requires --edit or --patch."
            raise UsageError(message, next_step="Add --edit FILE or --patch JSON.")
        return None
    return Edit(value, whole=bool(file), pipeline=find_pipeline(pipeline))


def find_pipeline(name: str) -> Pipeline | None:
    """Load the pipeline of a name; None for no name."""
    return load_pipeline(name) if name else None


def count_not_compensated(letters: Sequence[Letter]) -> int:
    """Count the dead letters whose effects may still be in force.

    The ledger finds an effect by its arguments, so with another payload a redrive may
    repeat it.
    """
    return sum(letter.get("compensation") in NOT_COMPENSATED for letter in letters)


async def preview_payloads(
    rt: Runtime, letters: Sequence[Letter], edit: Edit | None
) -> NewPayloads:
    """Return the new payloads, before anything is changed.

    Raises:
        UsageError: `redrive.payload.invalid`, naming the chunk; `cli.usage.invalid`:
            `--edit` was given for several dead letters.
    """
    if edit is None:
        return {}
    if edit.whole and len(letters) > 1:
        message = f"--edit sets one payload, but {len(letters)} dead letters match."
        raise UsageError(message, next_step="Select one: --job JOB --chunk N.")
    payloads: NewPayloads = {}
    for position, letter in enumerate(letters):
        try:
            new = await edit_payload(rt, letter, edit)
        except UsageError as error:
            message = f"{letter['job']}/{chunk_name(letter)}: {error.message}"
            raise UsageError(message, code=error.code) from error
        if new is not None:
            payloads[position] = json.loads(new.content)
    return payloads


# Report a canary redrive: each wave when it ends, then the causes that recurred.


COLUMNS = [
    Column("WAVE", "wave", right=True),
    Column("REDRIVEN", "redriven", right=True),
    Column("SUCCEEDED", "succeeded", right=True),
    Column("DIED AGAIN", "died", right=True),
    Column("CANCELLED", "cancelled", right=True),
]


async def redrive_in_waves(
    rt: Runtime, out: Output, letters: Sequence[Letter], options: RedriveOptions
) -> int:
    """Redrive in waves; return the exit code.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`.
    """
    ended: list[Document] = []

    def report(result: WaveResult) -> None:
        ended.append(wave_document(len(ended) + 1, result))
        out.say(wave_line(ended[-1]))

    request = CanaryRequest(letters, options.request, options.canary, options.timeout_s)
    result = await canary(rt, request, report, out.say)
    document = {
        "verdict": str(result.verdict),
        "waves": ended,
        "recurred": recurred_causes(result, letters),
        "remaining": result.remaining,
    }

    def draw(console: Console) -> None:
        print_table(console, ended, COLUMNS)

    out.document(document, draw)
    report_verdict(out, document)
    return exit_code(result)


def wave_document(number: int, result: WaveResult) -> Document:
    """Return the result of a wave as a document."""
    return {
        "wave": number,
        "redriven": result.redriven,
        "succeeded": result.succeeded,
        "died": result.died.total(),
        "cancelled": result.cancelled,
        "fingerprints": dict(result.died),
    }


def wave_line(wave: Document) -> str:
    """Return the result of a wave as a line."""
    return (
        f"wave {wave['wave']}: {wave['redriven']} redriven, {wave['succeeded']} "
        f"succeeded, {wave['died']} died again"
    )


def recurred_causes(result: CanaryResult, letters: Sequence[Letter]) -> list[Document]:
    """Return the redriven causes that killed a chunk again."""
    known = {letter["fingerprint"]: letter["error_code"] for letter in letters}
    died = sum((wave.died for wave in result.waves), start=WaveResult().died)
    return [
        {"fingerprint": mark, "error_code": known[mark], "count": count}
        for mark, count in died.items()
        if mark in known
    ]


def report_verdict(out: Output, document: Document) -> None:
    """Write which causes recurred, why it stopped, and how many letters remain."""
    for cause in document["recurred"]:
        code, mark = cause["error_code"], cause["fingerprint"]
        out.say(f"cause recurred: {code}, {cause['count']} times (fingerprint {mark})")
        out.say(f"next: piecework dlq list --fingerprint {mark}")
    if document["verdict"] != Verdict.CONTINUE:
        left = document["remaining"]
        letters = f"{left} dead letter{'s' * (left != 1)}"
        out.say(f"stopped ({document['verdict']}); {letters} not redriven")


def exit_code(result: CanaryResult) -> int:
    """Return the exit code of a canary redrive."""
    if result.verdict is Verdict.CANCELLED:
        return CANCELLED
    died = any(wave.died for wave in result.waves)
    return DEAD_LETTERS_LEFT if died else OK
