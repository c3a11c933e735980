"""How a run ends: once its budget is spent, and in words, with its dead letters."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.outcome import CHANGED_CODE
from piecework.domain.pause import PauseCode
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.explain.changed import accept_command
from piecework.runtime import Runtime
from piecework.store.completion import all_chunks
from piecework_orchestrator.client import JobHandle
from piecework_orchestrator.reading.job_documents import dead_letters_of

if TYPE_CHECKING:  # it loads the extra `cli`, which `piecework.run` does without
    from piecework_orchestrator.cli.output import Output

#: Seconds between two polls: a poll costs nothing here.
POLL_S = 0.25
#: The messages of one code that the end of the run lists.
MAX_CAUSES = 20


async def show_end(
    out: Output, rt: Runtime, job: Job, name: str = "", *, is_spent: bool = False
) -> None:
    """Write the end of the job, and its open dead letters by their code.

    `is_spent`: the budget was spent, so the job has chunks that are left.
    """
    counts: Counter[ChunkStatus] = Counter()
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        counts[chunk.status] += 1
    out.say(f"{name}{end_text(job, counts, is_spent=is_spent)}")
    groups: dict[tuple[str, str], list[DeadLetterRow]] = {}
    async for letter in dead_letters_of(rt).of_job(job.ref):
        if letter.state == "OPEN":
            groups.setdefault((letter.error_code, letter.stage), []).append(letter)
    for letters in sorted(groups.values(), key=len, reverse=True):
        for line in lines_of(letters):
            out.say(line)
    if any(code == CHANGED_CODE for code, _ in groups):
        out.say(f"next: {accept_command(job.ref.job)}; or run the code before")


def end_text(job: Job, counts: Counter[ChunkStatus], *, is_spent: bool) -> str:
    """Return how a job has ended, with the chunks of each status if there are two."""
    done, dead = counts[ChunkStatus.SUCCEEDED], counts[ChunkStatus.DEAD]
    if is_spent and job.status is JobStatus.CANCELLED:
        left = job.chunks - done - dead
        failed = f", {dead:,} dead" if dead else ""
        return f"the budget is spent: {done:,} done{failed}, {left:,} left"
    chunks = f"{job.chunks:,} chunk{'' if job.chunks == 1 else 's'}"
    if len(counts) < 2:  # noqa: PLR2004 -- one status says nothing new
        return f"{job.status}: {chunks}"
    parts = ", ".join(f"{n:,} {status}" for status, n in sorted(counts.items()))
    return f"{job.status}: {parts} of {chunks}"


def lines_of(letters: Sequence[DeadLetterRow]) -> Iterator[str]:
    """Yield what the dead letters of one code and stage say: each chunk, each cause."""
    first, causes = letters[0], defaultdict[str, list[int]](list)
    for letter in letters:
        causes[letter.error].append(letter.chunk)
    if first.ref.is_join:
        who = "dead join"
    elif len(letters) == 1:
        who = f"dead chunk {first.chunk}"
    else:
        numbers = ranges_text([letter.chunk for letter in letters])
        who = f"{len(letters):,} dead chunks ({numbers})"
    where = f" in {first.stage}" if first.stage else ""
    what = f"{who}: {first.error_code}{where}"
    if len(causes) == 1:
        yield f"{what}: {first.error}"
        return
    yield what
    for error, chunks in list(causes.items())[:MAX_CAUSES]:
        yield f"  chunk {ranges_text(chunks)}: {error}"
    if len(causes) > MAX_CAUSES:
        yield f"  and {len(causes) - MAX_CAUSES:,} causes more"


def ranges_text(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: `0-3, 7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] + 1 == number:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


async def end_at_budget(
    say: Callable[[str], None], rt: Runtime, job: JobHandle[Any], spent: asyncio.Event
) -> None:
    """Cancel the job once its budget is spent: no operator raises it here."""
    while True:
        record = await rt.jobs.read(job.ref)
        pause = None if record is None else record.pause
        if pause is not None and pause.code == PauseCode.BUDGET:
            say(f"the run ends: {pause.message}")
            spent.set()
            await job.cancel(pause.message)
        await asyncio.sleep(POLL_S)
