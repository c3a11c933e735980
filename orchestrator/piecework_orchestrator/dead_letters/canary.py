"""Redrive a few dead letters first, and more only if those succeed.

A wave reopens its jobs, each in a new generation. The next wave starts when these jobs
have ended again, because only an ended job can be reopened. So the join of a job runs
after each wave.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.errors import (
    NotFoundError,
    PieceworkError,
    UsageError,
    WaitTimeoutError,
)
from piecework.runtime import Runtime
from piecework.store.completion import read_chunk
from piecework.store.dead_letters import DeadLetters
from piecework_orchestrator.dead_letters.redrive import (
    NOTHING_LEFT,
    RedriveRequest,
    describe_skipped,
    redrive,
)
from piecework_orchestrator.reading.watch import Watcher, watch

# ── decide how a canary redrive continues ─────────────────────────────────────
#
# Pure: a wave's result goes in, and whether the next wave starts comes out.


class Verdict(StrEnum):
    """Whether the next wave starts, or why it does not."""

    CONTINUE = "continue"
    #: A redriven cause killed a chunk again: it is not fixed.
    CAUSE_RECURRED = "cause recurred"
    #: Every chunk of the wave was dead-lettered for another cause.
    NONE_SUCCEEDED = "none succeeded"
    #: An operator cancelled the job meanwhile.
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class WaveResult:
    """The statuses of a wave's chunks after their jobs have ended.

    Attributes:
        died: The number of chunks that died again, by fingerprint.
    """

    redriven: int = 0
    succeeded: int = 0
    cancelled: int = 0
    died: Counter[str] = field(default_factory=Counter)


def judge_wave(result: WaveResult, fingerprints: set[str]) -> Verdict:
    """Return whether the next wave starts, given the fingerprints that are redriven.

    A wave without any redriven letter lets the next wave start: others had redriven its
    letters before.
    """
    if fingerprints & result.died.keys():
        return Verdict.CAUSE_RECURRED
    if result.cancelled:
        return Verdict.CANCELLED
    if result.redriven and not result.succeeded:
        return Verdict.NONE_SUCCEEDED
    return Verdict.CONTINUE


@dataclass(frozen=True, slots=True)
class CanaryRequest:
    """A canary redrive as the operator requested it.

    Attributes:
        letters: Open dead letters with their fingerprints, of any jobs.
        make_request: Returns the redrive of some dead letters of a job.
        first: The number of dead letters in the first wave.
        timeout_s: Seconds to wait for all waves together; None: no limit.
    """

    letters: Sequence[DeadLetterRow]
    make_request: Callable[[JobRef, Sequence[DeadLetterRow]], RedriveRequest]
    first: int
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """The result of a canary redrive.

    Attributes:
        remaining: The number of dead letters that were not redriven.
    """

    verdict: Verdict
    waves: list[WaveResult]
    remaining: int


async def redrive_canary(
    rt: Runtime,
    request: CanaryRequest,
    on_wave: Callable[[WaveResult], None],
    remark: Callable[[str], None],
) -> CanaryResult:
    """Redrive wave by wave, each twice as large; call `on_wave` with its result.

    A job that cannot be reopened is skipped with all its letters. A wave without any
    redriven letter has shown nothing, so the next one is not larger.

    Raises:
        PieceworkError: Why the last job could not be redriven, if none could.
        WaitTimeoutError: `cli.wait.timeout`; the current wave continues without us.
    """
    loop = asyncio.get_running_loop()
    ends = None if request.timeout_s is None else loop.time() + request.timeout_s
    fingerprints = {letter.fingerprint for letter in request.letters}
    results: list[WaveResult] = []
    rest, size, skipped = list(request.letters), request.first, 0
    verdict = Verdict.CONTINUE
    while rest and verdict is Verdict.CONTINUE:
        letters, later = rest[:size], rest[size:]
        gens, refused = await redrive_wave(rt, request, letters)
        for ref, error in refused.items():
            remark(describe_skipped(ref, error))
        rest = [letter for letter in later if letter.job not in refused]
        skipped += sum(letter.job in refused for letter in letters)
        skipped += len(later) - len(rest)
        for ref in gens:
            timeout_s = None if ends is None else max(ends - loop.time(), 0.0)
            await wait_for_end(rt, ref, remark, timeout_s, len(rest) + skipped)
        results.append(await read_wave_result(rt, letters, gens))
        if refused and skipped == len(request.letters):
            raise refused.popitem()[1]
        on_wave(results[-1])
        verdict = judge_wave(results[-1], fingerprints)
        size *= 2 if results[-1].redriven else 1
    return CanaryResult(verdict, results, len(rest) + skipped)


async def wait_for_end(
    rt: Runtime,
    ref: JobRef,
    remark: Callable[[str], None],
    timeout_s: float | None,
    remaining: int,
) -> None:
    """Wait until a job has ended.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`, with the number of remaining letters.
    """
    try:
        await watch(rt, ref.job, Watcher(lambda _: None, remark=remark), timeout_s)
    except WaitTimeoutError as error:
        message = f"{error.message} Dead letters not redriven: {remaining}."
        raise WaitTimeoutError(message, next_step=error.next_step) from error


async def redrive_wave(
    rt: Runtime, request: CanaryRequest, letters: Sequence[DeadLetterRow]
) -> tuple[dict[JobRef, int], dict[JobRef, PieceworkError]]:
    """Redrive a wave, job by job; return the new generations, and what was refused.

    A job is left out if others have closed all its dead letters since they were listed.
    """
    by_job: dict[JobRef, list[DeadLetterRow]] = defaultdict(list)
    for letter in letters:
        by_job[letter.job].append(letter)
    gens: dict[JobRef, int] = {}
    refused: dict[JobRef, PieceworkError] = {}
    for ref, some in by_job.items():
        try:
            _, gens[ref] = await redrive(rt, request.make_request(ref, some))
        except (UsageError, NotFoundError) as error:
            if error.code != NOTHING_LEFT:
                refused[ref] = error
    return gens, refused


async def read_wave_result(
    rt: Runtime, letters: Sequence[DeadLetterRow], gens: dict[JobRef, int]
) -> WaveResult:
    """Count the statuses of a wave's chunks, except those that others redrove."""
    store = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    statuses: Counter[str] = Counter()
    died: Counter[str] = Counter()
    for letter in letters:
        if letter.job not in gens:
            continue
        gen, chunk = gens[letter.job], await read_chunk(rt.table, letter.ref)
        if chunk is None or chunk.gen != gen:
            continue
        statuses[chunk.status] += 1
        if chunk.status is ChunkStatus.DEAD:
            again = await store.read(letter.ref, gen, [])
            died[again.fingerprint if again else ""] += 1
    return WaveResult(
        redriven=statuses.total(),
        succeeded=statuses[ChunkStatus.SUCCEEDED],
        cancelled=statuses[ChunkStatus.CANCELLED],
        died=died,
    )
